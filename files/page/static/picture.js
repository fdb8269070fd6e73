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

export function picture(state) {
  const {nodes, plan} = state;
  const columns = Math.min(nodes.length, 2), wide = 210, gap = 130, left = 12;
  const width = left * 2 + columns * wide + (columns - 1) * gap;
  const lines = Math.ceil(nodes.length / columns), top = 100, high = 130;
  const rails = links(nodes);
  const map = drawn("svg", {viewBox: `0 0 ${width} ${top + lines * high}`, "class": "map", role: "img"});
  const said = nodes.map((node) => `${node.name} ${word(node.state)}, ${ENGINE[node.engine.state] ?? ""}`).join("; ");
  map.append(drawn("title", {}, `${plan.topology}: ${said}; rails: ${rails.join(", ") || "none"}`));
  const middle = width / 2, model = state.models[0];
  nodes.forEach((node, index) => {
    const x = left + (index % columns) * (wide + gap) + wide / 2, y = top + Math.floor(index / columns) * high;
    map.append(drawn("path", {d: `M${middle} 56 L${x} ${y}`}));
  });
  const door = drawn("g", {"class": model.state});
  door.append(
    drawn("rect", {x: middle - 105, y: 8, width: 210, height: 48, rx: 5}),
    drawn("text", {x: middle - 93, y: 28}, `${MARKS[model.state] ?? "?"} the door`),
    drawn("text", {x: middle - 93, y: 46, "class": "sub"}, `${model.name}, ${plan.topology}`),
  );
  map.append(door);
  nodes.forEach((node, index) => {
    const x = left + (index % columns) * (wide + gap), y = top + Math.floor(index / columns) * high;
    map.append(box(node, x, y, wide));
    if (index % columns === 0 && index + 1 < nodes.length) {
      rails.forEach((rail, line) => {
        const at = y + 26 + line * 34;
        map.append(drawn("path", {d: `M${x + wide} ${at} H${x + wide + gap}`, "class": rail === "down" ? "down" : "rail"}));
        map.append(drawn("text", {x: x + wide + 8, y: at - 5, "class": "sub"}, rail === "down" ? "✕ rail down" : rail === "up" ? "rail up" : "rail not known"));
      });
    }
  });
  return map;
}
