// Puts the page together and keeps it in step with what is chosen.
import { breakable, counted, h, isNumber, number, percent, segments } from './dom.js';
import { Curves, X_NAMES } from './curves.js';
import { Settings } from './settings.js';
import { Results, runChoice, Verdicts } from './tables.js';
import { Resources } from './resources.js';
import { Timeline } from './timeline.js';
import { Graph } from './graph.js';
import { Model } from './model.js';
import { Sweeps } from './sweep.js';
import { Confusion } from './confusion.js';
import { changed, focusedRun, runColour, runState, selectedRuns, setZoom, start, store, trackOf, update } from './store.js';

// ---- theme

const root = document.documentElement, systemDark = matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = null; // null: as the system says
try { chosenTheme = localStorage.getItem('shoal-theme'); } catch { /* a page from disk may have no storage */ }
const themeNow = () => chosenTheme || (systemDark.matches ? 'dark' : 'light');
function setTheme(theme) {
  root.dataset.theme = theme;
  changed('theme');
}
root.dataset.theme = themeNow();
systemDark.addEventListener('change', () => setTheme(themeNow()));
addEventListener('beforeprint', () => setTheme('light'));
addEventListener('afterprint', () => setTheme(themeNow()));

// ---- sections

const choices = [];
function choice() {
  const made = runChoice();
  choices.push(made);
  return made.element;
}
const SECTIONS = [
  { id: 'results', title: 'Results', part: new Results() },
  { id: 'sweeps', title: 'Comparison', part: new Sweeps() },
  { id: 'settings', title: 'Settings', part: new Settings() },
  { id: 'curves', title: 'Curves', part: new Curves() },
  { id: 'confusion', title: 'Classes', part: new Confusion(), more: choice() },
  { id: 'verdict', title: 'Verdict', part: new Verdicts() },
  { id: 'resources', title: 'Resources', part: new Resources(), more: choice() },
  { id: 'timeline', title: 'Timeline', part: new Timeline(), more: choice() },
  { id: 'model', title: 'Model', part: new Model(), more: choice() },
  { id: 'graph', title: 'Graph', part: new Graph(), more: choice() },
];
const main = document.getElementById('main'), empty = h('div', { class: 'empty', hidden: true });
for (const s of SECTIONS) {
  s.element = h('section', { id: s.id, 'aria-label': s.title, hidden: true },
    h('div', { class: 'head' }, h('h2', {}, s.title), s.more || null), s.part.element);
  s.link = h('a', { href: `#${s.id}`, hidden: true }, s.title);
}
main.append(empty, ...SECTIONS.map(s => s.element));

// ---- the bar

const count = h('small', {}), live = h('span', { class: 'live', role: 'status' });
const amount = h('output', {}, String(store.smoothing));
const reset = h('button', { class: 'plain', type: 'button', hidden: true, onclick: () => setZoom(null) }, 'Reset zoom');
const themeButton = h('button', { class: 'plain', type: 'button', onclick: () => {
  chosenTheme = themeNow() === 'dark' ? 'light' : 'dark';
  try { localStorage.setItem('shoal-theme', chosenTheme); } catch { /* not kept then */ }
  setTheme(chosenTheme);
} });
document.getElementById('bar').append(
  h('div', { class: 'mark' }, 'Shoal', count), store.live ? live : '', h('nav', { class: 'sections', 'aria-label': 'Sections' }, SECTIONS.map(s => s.link)),
  h('div', { class: 'spring' }),
  h('div', { class: 'controls' }, reset,
    segments('x axis', [['step', 'Step'], ['seconds', 'Time'], ['examples', 'Examples']], store.by, by => {
      store.by = by;
      setZoom(null);
      changed('axis');
    }),
    h('label', { class: 'control' }, 'Smoothing', h('input', { type: 'range', min: '0', max: '0.98', step: '0.02', value: String(store.smoothing), id: 'smoothing', oninput: e => {
      store.smoothing = Number(e.target.value);
      amount.textContent = store.smoothing.toFixed(2).replace(/\.?0+$/, '') || '0';
      changed('style');
    } }), amount),
    h('label', { class: 'control' }, h('input', { type: 'checkbox', id: 'logarithmic', onchange: e => {
      store.logarithmic = e.target.checked;
      changed('style');
    } }), 'Log scale'),
    themeButton));

// ---- the list of runs

const list = h('ul', { class: 'runs' }), search = h('input', { class: 'search', type: 'search', placeholder: 'Filter runs', 'aria-label': 'Filter runs', oninput: () => drawList() });
const choose = all => {
  const seen = store.runs.filter(matches);
  for (const r of seen) store.selected[all ? 'add' : 'delete'](r.id);
  changed('selection');
  update();
};
document.getElementById('side').append(search, h('div', { class: 'side-head' }, h('span', {}, 'Runs'),
  h('span', {}, h('button', { type: 'button', onclick: () => choose(true) }, 'all'), ' · ', h('button', { type: 'button', onclick: () => choose(false) }, 'none'))), list);

function matches(run) {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean), s = run.summary || {};
  const text = `${run.name} ${s.model || ''} ${s.strategy || ''} ${s.mode || ''} ${runState(run)}`.toLowerCase();
  return words.every(w => text.includes(w));
}

/** The figures that tell a run from the others at a glance. */
function facts(run) {
  const s = run.summary;
  if (s && isNumber(s.test_auc)) return [h('b', {}, `AUC ${s.test_auc.toFixed(4)}`), ` · ${number(s.seconds, 3)} s`];
  if (s && isNumber(s.test_accuracy)) return [h('b', {}, percent(s.test_accuracy)), ` · ${number(s.seconds, 3)} s`];
  if (s && isNumber(s.test_r2)) return [h('b', {}, `R² ${s.test_r2.toFixed(4)}`), ` · ${number(s.seconds, 3)} s`];
  if (s && s.status) return [s.status];
  const t = trackOf(run, 'step'), last = t && t.columns.step ? t.columns.step[t.columns.step.length - 1] : null;
  return [runState(run), isNumber(last) ? ` · step ${number(last)}` : ''];
}

/** Arrow keys go from run to run. */
function walk(e) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
  if (!step) return;
  const all = [...list.querySelectorAll(`.${e.target.className}`)], next = all[all.indexOf(e.target) + step];
  if (next) next.focus();
  e.preventDefault();
}

function drawList() {
  const held = document.activeElement && list.contains(document.activeElement)
    ? [document.activeElement.className, document.activeElement.closest('li').dataset.id] : null;
  const focus = focusedRun();
  list.replaceChildren(...store.runs.filter(matches).map(r => h('li', { 'data-id': String(r.id), 'data-focus': String(focus && r.id === focus.id) },
    h('input', { type: 'checkbox', class: 'tick', checked: store.selected.has(r.id), 'aria-label': `show ${r.name}`, onkeydown: walk,
      style: store.selected.has(r.id) ? { background: `var(${runColour(r)})` } : {},
      onchange: e => {
        store.selected[e.target.checked ? 'add' : 'delete'](r.id);
        changed('selection');
        update();
      } }),
    h('div', {}, h('button', { type: 'button', class: 'run-name', title: r.name, onkeydown: walk, onclick: () => {
      store.focus = r.id;
      store.selected.add(r.id);
      changed('selection');
      update();
    } }, breakable(r.name)), h('div', { class: 'run-facts' }, facts(r))))));
  if (held) {
    const item = list.querySelector(`li[data-id="${held[1]}"] .${held[0]}`);
    if (item) item.focus();
  }
}

// ---- drawing

function show(section, there) {
  section.element.hidden = !there;
  section.link.hidden = !there;
}

function draw() {
  const theme = root.dataset.theme, focus = focusedRun();
  count.textContent = `${store.live ? '' : 'report · '}${counted(store.runs.length, 'run')}`;
  document.title = store.runs.length === 1 ? `${store.runs[0].name} · Shoal` : `${store.runs.length} runs · Shoal`;
  live.textContent = store.connected ? 'live' : 'not connected';
  live.dataset.state = store.connected ? 'live' : 'lost';
  themeButton.textContent = theme === 'dark' ? 'Light' : 'Dark';
  reset.hidden = !store.zoom;
  for (const c of choices) c.draw(focus);
  drawList();
  for (const s of SECTIONS) {
    // A chart needs a width to draw itself, so its section shows first.
    s.element.hidden = false;
    const there = s.part.draw(theme);
    if (there instanceof Promise) {
      if (s.link.hidden) s.element.hidden = true;
      there.then(t => {
        show(s, t);
        if (t) s.part.paint();
      }, error => console.warn(error.message));
    } else {
      show(s, there);
    }
  }
  empty.hidden = store.runs.length > 0 && selectedRuns().length > 0;
  empty.replaceChildren(...(store.runs.length ? ['No run is selected. Tick some in the list.']
    : ['No runs yet. ', h('code', {}, 'shoal train softmax'), ' makes one.']));
}

let asked = false;
function ask() {
  if (asked) return;
  asked = true;
  requestAnimationFrame(() => {
    asked = false;
    draw();
    root.dataset.drawn = String(Number(root.dataset.drawn || 0) + 1);
  });
}
store.listeners.push(what => {
  if (what === 'theme') for (const s of SECTIONS) if (s.part.paint) s.part.paint();
  ask();
});
addEventListener('keydown', e => {
  if (e.key === '/' && !/^(input|select)$/i.test(document.activeElement.tagName)) {
    search.focus();
    e.preventDefault();
  }
});
start();
