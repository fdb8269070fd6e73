// Asks every five seconds, and keeps the last picture, marked as old, where no answer comes.
import {advice} from "./advice.js";
import {draw, resized} from "./courses.js";
import {picture} from "./picture.js";
import {events, models, nodes} from "./tell.js";

const EVERY_MS = 5000, WAIT_MS = 4000;
const at = (id) => document.getElementById(id);
let silentSince = null, panels = "", turn = 0;

async function asked(path) {
  const answer = await fetch(path, {cache: "no-store", signal: AbortSignal.timeout(WAIT_MS)});
  if (!answer.ok) throw new Error(`${answer.status}: ${(await answer.text()).trim()}`);
  return answer.json();
}

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
    panels = listed;
    at("panel").replaceChildren(...state.panels.map((panel) => new Option(panel.title, panel.id)));
    at("panel").value = "tokens_out";
  }
}

async function course() {
  const query = new URLSearchParams({panel: at("panel").value, span: at("span").value});
  try {
    draw(at("course"), at("course-note"), await asked(`series.json?${query}`));
  } catch (error) {
    at("course-note").textContent = `No answer to this: ${error.message}`;
  }
}

async function happened() {
  try {
    const said = await asked("events.json");
    at("events").replaceChildren(...events(said));
    const missing = said.missing.length ? `Nothing could be had of ${said.missing.join(", ")}. ` : "";
    at("events-note").textContent = missing + (said.events.length ? "" : "Nothing is recorded.");
  } catch (error) {
    at("events-note").textContent = `No answer to this: ${error.message}`;
  }
}

async function look() {
  try {
    const state = await asked("state.json");
    silentSince = null;
    document.body.classList.remove("old");
    told(state);
    document.body.dataset.state = "told";
    if (turn++ % 3 === 0) await Promise.all([course(), happened()]);
  } catch (error) {
    silentSince ??= new Date();
    document.body.classList.add("old");
    at("fresh").textContent = `No answer since ${silentSince.toTimeString().slice(0, 8)}: what is below is old.`;
  }
  setTimeout(look, EVERY_MS);
}

at("choice").addEventListener("change", course);
at("choice").addEventListener("submit", (event) => event.preventDefault());
addEventListener("resize", () => resized(at("course")));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", course);
look();
