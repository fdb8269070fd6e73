// The chart of one panel, by uPlot. Its note says where it is from and what is missing.
import {day, local, minute, second, stamp} from "./times.js";

const INKS = ["#0b7a75", "#b3541e", "#5b34b0", "#8a6d00", "#b02a63", "#2f6fb5"];
const DARK = ["#4fd1c9", "#f0a36b", "#c0a6ff", "#e8d05c", "#ff9cc5", "#86bdf5"];
let plot = null;

// The day below the first hour of it, or alone where each mark is one.
function marks(_, splits, axis, space, step) {
  return splits.map((when, index) => {
    if (step >= 86400) return day(when).slice(5);
    const time = step < 60 ? second(when) : minute(when);
    return index && day(splits[index - 1]) === day(when) ? time : `${time}\n${day(when)}`;
  });
}

export function draw(place, note, chart) {
  const style = getComputedStyle(document.body);
  const inks = matchMedia("(prefers-color-scheme: dark)").matches ? DARK : INKS;
  const axis = {stroke: style.color, grid: {stroke: "#8888", width: 0.5}, ticks: {stroke: "#8888", width: 0.5}};
  const drawn = chart.series.map((each, index) => ({
    label: each.name || chart.title,
    stroke: inks[index % inks.length],
    width: 2,
    dash: index < inks.length ? [[], [8, 4], [2, 3], [12, 3, 2, 3]][index % 4] : [4, 4],
  }));
  if (plot) plot.destroy();
  plot = null;
  place.replaceChildren();
  note.textContent = `${chart.title}, ${chart.unit}; from ${chart.from === "memory" ? "this page's memory" : chart.from}. ${chart.note}`;
  if (!chart.times.length || !chart.series.length) {
    place.textContent = "Nothing is known of this yet.";
    return;
  }
  const options = {
    width: place.clientWidth,
    height: 240,
    tzDate: local,
    series: [{label: "Time", value: (_, when) => when === null ? "--" : stamp(when)}, ...drawn],
    // A mark with its seconds is wider than uPlot takes it for.
    axes: [{...axis, values: marks, space: 80}, {...axis, size: 64}],
    scales: {y: {range: (_, low, high) => [Math.min(0, low ?? 0), Math.max(high ?? 1, 1e-9) * 1.05]}},
  };
  plot = new window.uPlot(options, [chart.times, ...chart.series.map((each) => each.values)], place);
}

export function resized(place) {
  if (plot) plot.setSize({width: place.clientWidth, height: 240});
}
