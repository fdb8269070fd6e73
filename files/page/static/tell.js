// What the state says, as text. A value that is absent is "not known", never 0.

export const MARKS = {
  ok: "●", serves: "●", starting: "◐", partly: "◐", problem: "▲", dead: "✕", no: "✕", alone: "◆",
};
const WORDS = {partly: "serves in part", no: "does not serve", alone: "serves alone", dead: "no answer"};

// An element with text and children: nothing is ever put in as markup.
export function made(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function word(state) {
  return `${MARKS[state] ?? "?"} ${WORDS[state] ?? state}`;
}

export const known = (value) => value !== undefined && value !== null;
const fixed = (digits, unit, scale = 1) => (value) => `${(value * scale).toFixed(digits)}${unit}`;
const gib = (value) => `${(value / 2 ** 30).toFixed(1)} GiB`;
const ms = fixed(0, " ms", 1000);

function rows(of, wanted) {
  const list = made("dl");
  for (const [key, label, write] of wanted) {
    const value = typeof key === "function" ? key(of) : of[key];
    const told = known(value) ? write(value) : "not known";
    list.append(made("dt", {}, label), made("dd", known(value) ? {"data-of": label} : {"class": "unknown", "data-of": label}, told));
  }
  return list;
}

const MODEL = [
  ["requests_running", "Requests that run", fixed(0, "")],
  ["requests_waiting", "Requests that wait", fixed(0, "")],
  ["tokens_out", "Tokens made", fixed(1, " a second")],
  ["tokens_in", "Tokens read", fixed(1, " a second")],
  ["ttft_p50", "First token, p50", ms],
  ["ttft_p99", "First token, p99", ms],
  ["between_p50", "Between tokens, p50", ms],
  ["between_p99", "Between tokens, p99", ms],
  ["prefix_hits", "Prefix cache hits", fixed(0, " %")],
];

const NODE = [
  ["clock_hertz", "Clock", fixed(0, " MHz", 1e-6)],
  ["power_watts", "Power", fixed(0, " W")],
  ["temperature_celsius", "Temperature", fixed(0, " °C")],
  ["busy_ratio", "GPU at work", fixed(0, " %", 100)],
  ["memory_available_bytes", "Memory to be had", gib],
  ["memory_bytes", "Memory in all", gib],
  ["memory_floor_bytes", "The guard's floor", gib],
  ["swap_used_bytes", "Swap in use", gib],
];

function card(of, more) {
  const title = made("h3", {}, `${of.name} `, made("span", {"class": `word ${of.state}`}, word(of.state)));
  return made("article", {"class": `card ${of.state}`}, title, made("p", {}, of.sentence), more);
}

function lies(model) {
  return made("p", {"class": "lies"}, `${model.topology} on ${model.nodes.join(", ")}`);
}

export function models(state) {
  return state.models.map((model, index) => {
    const tiles = made("div", {"class": "tiles"}, ...[0, 3, 6].map((from) => rows(model, MODEL.slice(from, from + 3))));
    return card(model, state.models.length > 1 ? made("div", {}, lies(state.plan.models[index]), tiles) : tiles);
  });
}

export function rail(of) {
  const link = !known(of.carrier) ? "link not known" : of.carrier ? "link" : "no link";
  const speed = known(of.speed_bits) ? `${of.speed_bits / 1e9} Gbit/s` : "speed not known";
  const flow = known(of.in_gbits) && known(of.out_gbits) ? `${of.in_gbits.toFixed(2)} in, ${of.out_gbits.toFixed(2)} out` : "throughput not known";
  return `${link}, ${speed}, ${flow}`;
}

function cache(engine, several) {
  return [() => engine.kv_fill, several ? `KV cache of ${engine.model}` : "KV cache in use", fixed(0, " %")];
}

export function nodes(state) {
  const several = state.models.length > 1;
  return state.nodes.map((node) => {
    if (!("rails" in node)) return card(node, "");
    const more = node.disks.map((disk) => [() => disk, `Disk ${disk.path}`, (it) => `${gib(it.free_bytes)} of ${gib(it.bytes)} free`]);
    more.push(...node.rails.map((each) => [() => each, `Rail ${each.device}`, rail]));
    return card(node, rows(node, [...node.engines.map((each) => cache(each, several)), ...NODE, ...more]));
  });
}

export function events(told) {
  return told.events.map((event) => {
    const when = new Date(event.when * 1000);
    const time = made("time", {datetime: when.toISOString()}, when.toLocaleString());
    return made("li", {}, time, `${event.node ? event.node + ": " : ""}${event.text}`);
  });
}
