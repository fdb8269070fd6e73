// Asks every five seconds, and keeps the last picture, marked as old, where no answer comes.
import {advice} from "./advice.js";
import {asked, clock, trouble} from "./asked.js";
import {draw, resized} from "./courses.js";
import {picture} from "./picture.js";
import {events, models, nodes} from "./tell.js";

const EVERY_MS = 5000;
const at = (id) => document.getElementById(id);
let silentSince = null, panels = "", turn = 0;

function declared(model) {
  const by = model.executor ? ` by ${model.executor}` : "";
  return `${model.recipe} as ${model.model}, ${model.topology}${by}, on ${model.nodes.join(", ")}`;
}

function told(state) {
  at("plan").textContent = `Declared: ${state.plan.models.map(declared).join("; ")}.`;
  at("models-title").textContent = state.models.length > 1 ? "The models" : "The model";
  at("models").replaceChildren(...models(state));
  at("picture").replaceChildren(picture(state));
  at("nodes").replaceChildren(...nodes(state));
  at("advice").replaceChildren(...advice(state));
  at("advice-note").textContent = state.advice_note;
  const deploy = state.deploy_under_way ? " A deploy or a bench is at work." : "";
  at("fresh").textContent = `As ${state.asked_at} saw it at ${state.clock}.${deploy}`;
  const listed = JSON.stringify(state.panels);
  if (listed !== panels) {
    const ids = state.panels.map((panel) => panel.id), chosen = at("panel").value;
    at("panel").replaceChildren(...state.panels.map((panel) => new Option(panel.title, panel.id)));
    // Not every engine counts its tokens.
    at("panel").value = [chosen, "tokens_out"].find((id) => ids.includes(id)) ?? ids[0] ?? "";
    panels = listed;
  }
}

async function course() {
  const query = new URLSearchParams({panel: at("panel").value, span: at("span").value});
  try {
    draw(at("course"), at("course-note"), await asked(`series.json?${query}`));
  } catch (error) {
    at("course-note").textContent = `This course could not be had. ${trouble(error)}.`;
  }
}

async function happened() {
  try {
    const said = await asked("events.json");
    at("events").replaceChildren(...events(said));
    const missing = said.missing.length ? `Nothing could be had of ${said.missing.join(", ")}. ` : "";
    at("events-note").textContent = missing + (said.events.length ? "" : "Nothing is recorded.");
  } catch (error) {
    at("events-note").textContent = `What happened could not be had. ${trouble(error)}.`;
  }
}

async function look() {
  try {
    const state = await asked("state.json");
    told(state);
    silentSince = null;
    document.body.classList.remove("old");
    document.body.dataset.state = "told";
    if (turn++ % 3 === 0) await Promise.all([course(), happened()]);
  } catch (error) {
    silentSince ??= new Date();
    document.body.classList.add("old");
    at("fresh").textContent = `${trouble(error)}. So it is since ${clock(silentSince)}: what is below is old.`;
  }
  setTimeout(look, EVERY_MS);
}

at("choice").addEventListener("change", course);
at("choice").addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", () => resized(at("course")));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", course);
look();
