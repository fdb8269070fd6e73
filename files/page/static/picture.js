// The topology as a picture: the door, the nodes with what runs in them, and the rails between them.
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
  waits: "engine does not run", "gave-up": "engine has given up", unknown: "engine not known",
};

function box(node, x, y, wide) {
  const group = drawn("g", {"class": node.state});
  group.append(
    drawn("rect", {x, y, width: wide, height: 84, rx: 5}),
    drawn("text", {x: x + 12, y: y + 24}, node.name),
    drawn("text", {x: x + 12, y: y + 46}, word(node.state)),
    drawn("text", {x: x + 12, y: y + 68, "class": "sub"}, ENGINE[node.engine.state] ?? node.engine.state),
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

// Where nodes are: two beside each other, or one below the other where the window is as narrow as a phone.
function places(count) {
  const narrow = window.innerWidth < 560, columns = narrow ? 1 : Math.min(count, 2);
  const wide = 210, gap = 130, left = narrow ? 40 : 12, top = 100, high = narrow ? 150 : 130;
  const at = (index) => [left + (index % columns) * (wide + gap), top + Math.floor(index / columns) * high];
  const width = left * 2 + columns * wide + (columns - 1) * gap;
  return {narrow, columns, wide, gap, left, at, width, height: top + Math.ceil(count / columns) * high - (high - 100)};
}

function rail(state, line, [x, y], place) {
  const label = state === "down" ? "✕ rail down" : state === "up" ? "rail up" : "rail not known";
  const across = y + 26 + line * 34, down = x + 20 + line * 95;
  const path = place.narrow ? `M${down} ${y + 84} V${y + 150}` : `M${x + place.wide} ${across} h${place.gap}`;
  const text = place.narrow ? {x: down + 6, y: y + 121} : {x: x + place.wide + 8, y: across - 5};
  return [drawn("path", {d: path, "class": state === "down" ? "down" : "rail"}), drawn("text", {...text, "class": "sub"}, label)];
}

export function picture(state) {
  const {nodes, plan} = state, place = places(nodes.length), rails = links(nodes);
  const map = drawn("svg", {viewBox: `0 0 ${place.width} ${place.height}`, "class": "map", role: "img"});
  const said = nodes.map((node) => `${node.name} ${word(node.state)}, ${ENGINE[node.engine.state] ?? ""}`).join("; ");
  map.append(drawn("title", {}, `${plan.topology}: ${said}; rails: ${rails.join(", ") || "none"}`));
  const middle = place.width / 2, model = state.models[0];
  nodes.forEach((node, index) => {
    const [x, y] = place.at(index);
    const path = place.narrow ? `M${middle - 105} 32 H14 V${y + 42} H${x}` : `M${middle} 56 L${x + place.wide / 2} ${y}`;
    map.append(drawn("path", {d: path}));
  });
  const door = drawn("g", {"class": model.state});
  door.append(
    drawn("rect", {x: middle - 105, y: 8, width: 210, height: 48, rx: 5}),
    drawn("text", {x: middle - 93, y: 28}, `${MARKS[model.state] ?? "?"} the door`),
    drawn("text", {x: middle - 93, y: 46, "class": "sub"}, `${model.name}, ${plan.topology}`),
  );
  map.append(door);
  nodes.forEach((node, index) => {
    map.append(box(node, ...place.at(index), place.wide));
    if (index + 1 < nodes.length && (place.narrow || index % 2 === 0)) {
      map.append(...rails.flatMap((each, line) => rail(each, line, place.at(index), place)));
    }
  });
  return map;
}
