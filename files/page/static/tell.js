// What the state says, as text. A value that is absent is "not known", never 0.
import {stamp} from "./times.js";

export const MARKS = {
  ok: "●", serves: "●", starting: "◐", partly: "◐", problem: "▲", dead: "✕", no: "✕", alone: "◆", rests: "○",
};
const WORDS = {partly: "serves in part", no: "does not serve", alone: "serves alone", dead: "no answer", rests: "not loaded"};

// An element with text and children: nothing is ever put in as markup.
export function made(name, properties = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

// A sentence, with what stands between backticks as code.
export function sentence(text) {
  return text.split("`").map((part, index) => index % 2 ? made("code", {}, part) : part);
}

export function word(state) {
  return `${MARKS[state] ?? "?"} ${WORDS[state] ?? state}`;
}

export const known = (value) => value !== undefined && value !== null;
const fixed = (digits, unit, scale = 1) => (value) => `${(value * scale).toFixed(digits)}${unit}`;
const gib = (value) => `${(value / 2 ** 30).toFixed(1)} GiB`;
const ms = fixed(0, " ms", 1000);

// Figures by their labels; what nobody knows is named in one line below them.
function rows(of, wanted) {
  const list = made("dl"), unknown = [];
  for (const [key, label, write] of wanted) {
    const value = typeof key === "function" ? key(of) : of[key];
    if (known(value)) list.append(made("div", {}, made("dt", {}, label), made("dd", {"data-of": label}, write(value))));
    else unknown.push(label);
  }
  const parts = list.children.length ? [list] : [];
  if (unknown.length) parts.push(made("p", {"class": "unknown"}, `Not known: ${unknown.join("; ")}`));
  return made("div", {"class": "figures"}, ...parts);
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
  ["busy_ratio", "GPU busy", fixed(0, " %", 100)],
  ["memory_available_bytes", "Free memory", gib],
  ["memory_bytes", "Memory", gib],
  ["memory_floor_bytes", "Guard's floor", gib],
  ["swap_used_bytes", "Swap in use", gib],
];

function card(of, more) {
  const title = made("h3", {}, `${of.name} `, made("span", {"class": `word ${of.state}`}, word(of.state)));
  return made("article", {"class": `card ${of.state}`}, title, made("p", {}, ...sentence(of.sentence)), more);
}

function lies(model) {
  return made("p", {"class": "lies"}, `${model.topology} on ${model.nodes.join(", ")}`);
}

export function models(state) {
  return state.models.map((model, index) => {
    const parts = state.models.length > 1 ? [lies(state.plan.models[index])] : [];
    if (known(model.progress)) {
      const share = `${Math.round(model.progress * 100)} % of the usual loading time`;
      parts.push(made("progress", {value: model.progress, "aria-label": share}), made("p", {"class": "from"}, share));
    }
    return card(model, made("div", {}, ...parts, rows(model, MODEL)));
  });
}

function rail(of) {
  // A driver goes on naming the last speed of a link that is gone.
  if (!of.carrier) return "no link";
  const parts = ["link"];
  if (known(of.speed_bits)) parts.push(`${of.speed_bits / 1e9} Gbit/s`);
  if (known(of.in_gbits) && known(of.out_gbits)) parts.push(`${of.in_gbits.toFixed(2)} in, ${of.out_gbits.toFixed(2)} out`);
  return parts.join(", ");
}

function cache(engine, several) {
  return [() => engine.kv_fill, several ? `KV cache of ${engine.model}` : "KV cache in use", fixed(0, " %")];
}

export function nodes(state) {
  const several = state.models.length > 1;
  return state.nodes.map((node) => {
    if (!("rails" in node)) return card(node, "");
    const more = node.disks.map((disk) => [() => disk, `Disk ${disk.path}`, (it) => `${gib(it.free_bytes)} of ${gib(it.bytes)} free`]);
    more.push(...node.rails.map((each) => [() => known(each.carrier) ? each : null, `Rail ${each.device}`, rail]));
    return card(node, rows(node, [...node.engines.map((each) => cache(each, several)), ...NODE, ...more]));
  });
}

export function events(told) {
  return told.events.map((event) => {
    const time = made("time", {datetime: new Date(event.when * 1000).toISOString()}, stamp(event.when));
    return made("li", {}, time, `${event.node ? event.node + ": " : ""}${event.text}`);
  });
}
