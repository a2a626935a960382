// What is shown: runs and sweeps, either from the file itself or from the server that keeps them up to date.
import { isNumber } from './dom.js';

export const COLOURS = 8;
const SELECTED_AT_FIRST = 8;

const embedded = JSON.parse(document.getElementById('data').textContent);
const token = new URLSearchParams(location.search).get('token');

export const store = {
  live: embedded.live,
  version: embedded.version,
  connected: embedded.live,
  runs: [],      // {id, name, revision, summary, settings, graph, tracks, colour}
  sweeps: [],    // {id, name, sweep, comparison}
  traces: embedded.traces || {},
  selected: new Set(),
  focus: null,   // the run that sections about a single one show
  by: 'step',
  smoothing: 0.5,
  logarithmic: false,
  zoom: null,    // {from, to} in units of `by`
  listeners: [],
};

export function changed(what) { for (const f of store.listeners) f(what); }

export const selectedRuns = () => store.runs.filter(r => store.selected.has(r.id));
export function showAllRuns() {
  for (const r of store.runs) store.selected.add(r.id);
  changed('selection');
  update();
}
export const focusedRun = () => store.runs.find(r => r.id === store.focus) || selectedRuns()[0] || store.runs[0];
export const runColour = run => `--c${run.colour % COLOURS}`;

export function runState(run) {
  if (run.summary && run.summary.status) return run.summary.status;
  return store.live && run.tracks && run.tracks.length ? 'running' : 'unfinished';
}

export const byName = (a, b) => a.localeCompare(b, 'en', { numeric: true });

/** The track of a kind that has figures of this name; of several tasks the first, which is the chief's. */
export function trackOf(run, kind, name = 'step') {
  const measured = t => (column(t, name) || { mean: [] }).mean.some(v => v !== null);
  return (run.tracks || []).find(t => t.kind === kind && measured(t)) || null;
}

/** {mean, least, most} of a column; null where there is none. */
export function column(track, name) {
  const c = track && track.columns[name];
  if (!c) return null;
  return Array.isArray(c) ? { mean: c } : c;
}

function url(path, query = {}) {
  const u = new URL(path, location.href);
  for (const [k, v] of Object.entries(query)) u.searchParams.set(k, v);
  if (token) u.searchParams.set('token', token);
  return u;
}

async function get(path, query) {
  const answer = await fetch(url(path, query));
  if (!answer.ok) throw new Error(`${path}: ${answer.status}`);
  return answer.json();
}

function place(run) {
  const at = store.runs.findIndex(r => r.id === run.id);
  if (at >= 0) {
    store.runs[at] = { ...store.runs[at], ...run };
    return;
  }
  run.colour = store.runs.length ? Math.max(...store.runs.map(r => r.colour)) + 1 : 0;
  store.runs.push(run);
}

/** Steps a second where a run did not write them: between neighbouring samples. */
function complete(run) {
  for (const t of run.tracks || []) {
    const step = t.columns.step, time = t.columns.seconds;
    if (t.kind !== 'step' || t.columns.steps_per_second || !step || !time) continue;
    t.columns.steps_per_second = step.map((s, i) => {
      const seconds = i ? time[i] - time[i - 1] : time[i], steps = i ? s - step[i - 1] : s;
      return seconds > 0 && isNumber(steps) ? steps / seconds : null;
    });
  }
  return run;
}

/** Fetches what is shown and not there yet, or not up to date. */
async function refresh() {
  const wanted = store.runs.filter(r => (store.selected.has(r.id) || r.id === store.focus) && r.loaded !== r.revision);
  for (const r of wanted) {
    const revision = r.revision;
    place({ ...complete(await get('api/run', { id: r.id, points: 1000 })), revision: r.revision, loaded: revision });
  }
  return wanted.length > 0;
}

async function readState() {
  const state = await get('api/state');
  const known = new Set(store.runs.map(r => r.id));
  for (const r of state.runs.filter(r => r.run)) {
    place({ id: r.id, name: r.name, revision: r.revision, summary: r.summary });
    if (!known.has(r.id) && (known.size || store.runs.length <= SELECTED_AT_FIRST)) store.selected.add(r.id);
  }
  const there = new Set(state.runs.map(r => r.id));
  store.runs = store.runs.filter(r => there.has(r.id));
  if (!known.size && !store.selected.size) for (const r of store.runs.slice(-SELECTED_AT_FIRST)) store.selected.add(r.id);
  for (const s of state.runs.filter(r => r.sweep)) {
    const old = store.sweeps.find(o => o.id === s.id);
    if (old && old.revision === s.revision) continue;
    const fresh = await get('api/sweep', { id: s.id });
    store.sweeps = [...store.sweeps.filter(o => o.id !== s.id), fresh];
  }
}

let busy = false, again = false;
/** One update at a time; those that come meanwhile become one more. */
export async function update(whole) {
  again = true;
  if (!store.live || busy) return;
  busy = true;
  try {
    while (again) {
      again = false;
      if (whole) await readState();
      await refresh();
      if (store.zoom) await refine();
      changed('data');
    }
  } catch (error) {
    console.warn(`not updated: ${error.message}`);
  } finally {
    busy = false;
  }
}

/** While zoomed in, a live page asks for the part that is seen, at full width. */
export async function refine() {
  for (const r of selectedRuns()) {
    if (!store.zoom || !(r.tracks || []).some(t => t.thin)) continue;
    const part = await get('api/run', { id: r.id, points: 1000, by: store.by, from: store.zoom.from, to: store.zoom.to });
    r.detail = complete(part).tracks;
  }
}

export function setZoom(zoom) {
  store.zoom = zoom;
  for (const r of store.runs) r.detail = null;
  changed('zoom');
  if (store.live && zoom) refine().then(() => changed('data'), error => console.warn(`not refined: ${error.message}`));
}

export async function traceOf(run) {
  if (!run) return null;
  if (store.traces[run.id] !== undefined || !store.live || !run.traced) return store.traces[run.id] || null;
  store.traces[run.id] = await get('api/trace', { id: run.id });
  return store.traces[run.id];
}

function listen() {
  const events = new EventSource(url('api/events'));
  events.onmessage = () => {
    store.connected = true;
    update(true);
  };
  events.onerror = () => {
    store.connected = false;
    changed('connection');
  };
  events.onopen = () => {
    store.connected = true;
    changed('connection');
  };
}

export function start() {
  if (store.live) {
    update(true).then(listen);
    return;
  }
  for (const r of embedded.runs) place(complete(r));
  store.sweeps = embedded.sweeps || [];
  for (const r of store.runs.slice(0, SELECTED_AT_FIRST)) store.selected.add(r.id);
  changed('data');
}
