// The topology as a picture: the proxy, the nodes with what runs in them, and the rails between them.
import {MARKS, word} from "./tell.js";

const SPACE = "http://www.w3.org/2000/svg";

function drawn(name, properties, text) {
  const element = document.createElementNS(SPACE, name);
  for (const [key, value] of Object.entries(properties)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

const ENGINE = {
  answers: "engine answers", rank: "a rank of the engine", starts: "engine starts", silent: "engine is silent",
  lacks: "engine lacks a node", waits: "engine does not run", "gave-up": "engine has given up", rests: "engine rests", unknown: "engine not known",
};
// The same behind its model's name, where there are several.
const PART = {
  answers: "answers", rank: "a rank", starts: "starts", silent: "is silent", lacks: "lacks a node", waits: "does not run",
  "gave-up": "has given up", rests: "rests", unknown: "not known",
};
// Letters of a model's name that a box has room for, and what each further line makes it higher by.
const ROOM = 18, LINE = 18;
// CSS pixels of a unit, where there is room: one node is no larger than one of several.
const SCALE = 1.15;

function short(name) {
  return name.length > ROOM ? `${name.slice(0, ROOM - 1)}…` : name;
}

function part(engine, several) {
  return several ? `${engine.model}: ${PART[engine.state] ?? engine.state}` : ENGINE[engine.state] ?? engine.state;
}

// A line of small text; the whole of it where the pointer rests.
function line(x, y, whole, shown) {
  const text = drawn("text", {x, y, "class": "sub"}, shown);
  if (shown !== whole) text.append(drawn("title", {}, whole));
  return text;
}

function box(node, x, y, wide, high, several) {
  const group = drawn("g", {"class": node.state});
  group.append(
    drawn("rect", {x, y, width: wide, height: high, rx: 5}),
    drawn("text", {x: x + 12, y: y + 24}, node.name),
    drawn("text", {x: x + 12, y: y + 46}, word(node.state)),
    ...node.engines.map((each, index) =>
      line(x + 12, y + 68 + index * LINE, part(each, several), part({...each, model: short(each.model)}, several))),
  );
  return group;
}

// A rail is up where both ends say so; a node that says nothing does not say that it is down.
function links(nodes) {
  const count = Math.max(0, ...nodes.map((node) => (node.rails ?? []).length));
  return Array.from({length: count}, (_, index) => {
    const ends = nodes.map((node) => node.rails?.[index]?.carrier);
    return ends.some((end) => end === 0) ? "down" : ends.every((end) => end === 1) ? "up" : "not known";
  });
}

// Where nodes are: two beside each other, or one below the other where the window is as narrow as a phone. `more`: lines
// of the proxy and of a node beyond the first.
function places(count, more) {
  const narrow = window.innerWidth < 560, columns = narrow ? 1 : Math.min(count, 2);
  const wide = 210, gap = 100, left = narrow ? 40 : 12;
  const proxy = 48 + more.proxy * LINE, tall = 84 + more.node * LINE, top = proxy + 52;
  const high = tall + (narrow ? 66 : 46);
  const at = (index) => [left + (index % columns) * (wide + gap), top + Math.floor(index / columns) * high];
  const width = left * 2 + columns * wide + (columns - 1) * gap;
  const height = top + (Math.ceil(count / columns) - 1) * high + tall + 16;
  return {narrow, columns, wide, gap, left, at, width, height, proxy, tall, high};
}

function rail(state, line, [x, y], place) {
  const label = state === "down" ? "✕ rail down" : state === "up" ? "rail up" : "rail not known";
  const across = y + 26 + line * 34, down = x + 20 + line * 95;
  const path = place.narrow ? `M${down} ${y + place.tall} V${y + place.high}` : `M${x + place.wide} ${across} h${place.gap}`;
  const text = place.narrow ? {x: down + 6, y: y + place.tall + 37} : {x: x + place.wide + 8, y: across - 5};
  return [drawn("path", {d: path, "class": state === "down" ? "down" : "rail"}), drawn("text", {...text, "class": "sub"}, label)];
}

function proxy(state, x, place) {
  const {models, plan} = state, several = models.length > 1;
  // A model that rests lacks nothing.
  const states = new Set(models.map((model) => model.state).filter((is) => is !== "rests"));
  const is = states.size > 1 ? "partly" : [...states][0] ?? "rests";
  const group = drawn("g", {"class": is});
  const said = (model, index, name) => `${MARKS[model.state] ?? "?"} ${name}, ${plan.models[index].topology}`;
  group.append(
    drawn("rect", {x, y: 8, width: place.wide, height: place.proxy, rx: 5}),
    // One model's mark stands beside its name alone: it is the model that does not serve, not the proxy.
    drawn("text", {x: x + 12, y: 28}, several ? `${MARKS[is] ?? "?"} Proxy` : "Proxy"),
    ...models.map((model, index) =>
      line(x + 12, 46 + index * LINE, said(model, index, model.name), said(model, index, several ? short(model.name) : model.name))),
  );
  return group;
}

export function picture(state) {
  const {nodes, plan} = state, several = state.models.length > 1, rails = links(nodes);
  const lines = Math.max(1, ...nodes.map((node) => node.engines.length));
  const place = places(nodes.length, {proxy: state.models.length - 1, node: lines - 1});
  const map = drawn("svg", {viewBox: `0 0 ${place.width} ${place.height}`, width: place.width * SCALE, "class": "map", role: "img"});
  const said = nodes.map((node) => `${node.name} ${word(node.state)}, ${node.engines.map((each) => part(each, several)).join(", ")}`).join("; ");
  const how = several ? plan.models.map((each) => `${each.model} ${each.topology}`).join(", ") : plan.models[0].topology;
  map.append(drawn("title", {}, `${how}: ${said}; rails: ${rails.join(", ") || "none"}`));
  const middle = place.width / 2;
  nodes.forEach((node, index) => {
    const [x, y] = place.at(index);
    const path = place.narrow ? `M${middle - 105} 32 H14 V${y + 42} H${x}` : `M${middle} ${8 + place.proxy} L${x + place.wide / 2} ${y}`;
    map.append(drawn("path", {d: path}));
  });
  map.append(proxy(state, middle - 105, place));
  nodes.forEach((node, index) => {
    map.append(box(node, ...place.at(index), place.wide, place.tall, several));
    if (index + 1 < nodes.length && (place.narrow || index % 2 === 0)) {
      map.append(...rails.flatMap((each, line) => rail(each, line, place.at(index), place)));
    }
  });
  return map;
}
