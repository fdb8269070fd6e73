// Asks every five seconds, and keeps the last picture, marked as old, where no answer comes.
import {advice} from "./advice.js";
import {asked, trouble} from "./asked.js";
import {draw, resized} from "./charts.js";
import {picture} from "./picture.js";
import {events, models, nodes, sentence} from "./tell.js";
import {second, setZone, stamp} from "./times.js";

const EVERY_MS = 5000;
const at = (id) => document.getElementById(id);
let silentSince = null, panels = "", turn = 0;

function declared(model) {
  const by = model.executor ? ` by ${model.executor}` : "";
  return `${model.recipe} as ${model.model}, ${model.topology}${by}, on ${model.nodes.join(", ")}`;
}

// The clipboard's own interface is there over TLS and on loopback alone; marked text can be copied anywhere.
async function copy() {
  const range = document.createRange();
  range.selectNodeContents(at("url"));
  getSelection().removeAllRanges();
  getSelection().addRange(range);
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch {
    // The text stays marked.
  }
  at("copied").textContent = done ? "Copied." : "Marked: copy it with Ctrl-C.";
}

function told(state) {
  setZone(state.zone_offset_s);
  at("plan").textContent = `Declared: ${state.plan.models.map(declared).join("; ")}.`;
  const names = state.models.map((model) => model.name);
  at("names").textContent = `${names.length > 1 ? "Models" : "Model"}: ${names.join(", ")}. An app needs a key as well.`;
  at("models").replaceChildren(...models(state));
  at("picture").replaceChildren(picture(state));
  at("node-cards").replaceChildren(...nodes(state));
  at("advised").replaceChildren(...advice(state));
  at("advice-note").replaceChildren(...sentence(state.advice_note));
  const deploy = state.deploy_under_way ? " A deploy or a bench is at work." : "";
  at("fresh").textContent = `As ${state.asked_at} saw it at ${second(state.when)}; all times are ${state.zone}.${deploy}`;
  const listed = JSON.stringify(state.panels);
  if (listed !== panels) {
    const ids = state.panels.map((panel) => panel.id), chosen = at("panel").value;
    at("panel").replaceChildren(...state.panels.map((panel) => new Option(panel.title, panel.id)));
    // Not every engine counts its tokens.
    at("panel").value = [chosen, "tokens_out"].find((id) => ids.includes(id)) ?? ids[0] ?? "";
    panels = listed;
  }
}

async function chart() {
  const query = new URLSearchParams({panel: at("panel").value, span: at("span").value});
  try {
    draw(at("chart"), at("chart-note"), await asked(`series.json?${query}`));
  } catch (error) {
    at("chart-note").textContent = `This chart could not be loaded. ${trouble(error)}.`;
  }
}

async function happened() {
  try {
    const said = await asked("events.json");
    at("happened").replaceChildren(...events(said));
    const missing = said.missing.length ? `Nothing is known from ${said.missing.join(", ")}. ` : "";
    at("events-note").textContent = missing + (said.events.length ? "" : "Nothing is recorded.");
  } catch (error) {
    at("events-note").textContent = `The events could not be loaded. ${trouble(error)}.`;
  }
}

async function look() {
  try {
    const state = await asked("state.json");
    told(state);
    silentSince = null;
    document.body.classList.remove("old");
    document.body.dataset.state = "told";
    if (turn++ % 3 === 0) await Promise.all([chart(), happened()]);
  } catch (error) {
    silentSince ??= Date.now() / 1000;
    document.body.classList.add("old");
    at("fresh").textContent = `${trouble(error)}. So it is since ${stamp(silentSince)}: what is below is old.`;
  }
  setTimeout(look, EVERY_MS);
}

at("url").textContent = `${location.origin}/v1`;
at("copy").addEventListener("click", copy);
at("choice").addEventListener("change", chart);
at("choice").addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", () => resized(at("chart")));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", chart);
look();
