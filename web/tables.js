// The results of the selected runs, and what their verdicts say.
import { breakable, bytes, counted, h, isNumber, number, percent, swatch } from './dom.js';
import { changed, runColour, runState, selectedRuns, showAllRuns, store } from './store.js';
import { bestOfAll, figure, FIGURES, isUnderWay, showFigure } from './figures.js';

/** The first cell of a run's row. */
export const runCell = run => h('td', { class: 'word name', title: run.name },
  swatch(runColour(run)), breakable(run.name));


const narrow = matchMedia('(max-width: 520px)');
narrow.addEventListener('change', () => changed('width'));

export class Results {
  constructor() {
    this.sort = null; // {key, down}
    this.element = h('div', { class: 'card' });
  }

  sorted(runs) {
    if (!this.sort) return runs;
    const f = FIGURES.find(x => x.key === this.sort.key), sign = this.sort.down ? -1 : 1;
    return runs.sort((a, b) => {
      const x = figure(f, a), y = figure(f, b);
      if (x === y) return 0;
      if (x === null) return 1;
      if (y === null) return -1;
      return x < y ? -sign : sign;
    });
  }

  head(f) {
    const by = this.sort && this.sort.key === f.key;
    return h('th', { class: f.word ? 'word' : null, scope: 'col', 'aria-sort': by ? (this.sort.down ? 'descending' : 'ascending') : null },
      h('button', { type: 'button', onclick: () => {
        this.sort = { key: f.key, down: by ? !this.sort.down : f.best === 'most' };
        this.draw();
      } }, f.head));
  }

  draw() {
    const runs = this.sorted(selectedRuns()), training = runs.some(isUnderWay);
    // A column that nobody fills says nothing. On a narrow screen what came out is seen first.
    const columns = FIGURES.filter(f => (training || !f.live) && runs.some(r => figure(f, r) !== null));
    if (narrow.matches) columns.reverse().sort((a, b) => !!b.best - !!a.best);
    const bests = columns.map(bestOfAll), states = runs.some(r => runState(r) !== 'finished');
    const cell = (f, i, r) => {
      const v = figure(f, r), best = v !== null && v === bests[i], under = isUnderWay(r);
      return h('td', { class: [f.word ? 'word' : '', best && !under ? 'best' : '', under ? 'so-far' : ''].join(' ').trim() || null,
        title: under ? 'so far' : best ? 'best of all runs' : null }, showFigure(f, v));
    };
    const row = r => h('tr', {}, runCell(r), columns.map((f, i) => cell(f, i, r)),
      states && h('td', { class: 'word status', 'data-state': runState(r) }, runState(r)));
    this.element.replaceChildren(h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { class: 'word', scope: 'col' }, 'run'), columns.map(f => this.head(f)), states && h('th', { class: 'word', scope: 'col' }, 'status'))),
      h('tbody', {}, runs.map(row)))), ...this.notes(runs, columns, bests));
    return runs.length > 0;
  }

  /** What is not in the table. */
  notes(runs, columns, bests) {
    const hidden = store.runs.filter(r => !store.selected.has(r.id));
    if (!hidden.length) return [];
    const better = columns.filter((f, i) => bests[i] !== null && !runs.some(r => figure(f, r) === bests[i])).map(f => f.head);
    return [h('p', { class: 'hidden-runs' }, `${counted(hidden.length, 'run')} hidden`,
      better.length ? `, with the best ${better.join(', ')}` : '', ' ',
      h('button', { type: 'button', class: 'plain no-print', onclick: showAllRuns }, 'Show all'))];
  }
}

export const SHARES = [['compute', 'computing', '--c2'], ['network', 'network', '--c0'], ['barrier', 'barrier', '--c1'],
  ['input', 'input', '--c4'], ['server', 'server', '--c3'], ['other', 'other', '--line-strong']];

function stack(shares, label) {
  const text = SHARES.filter(([k]) => shares[k] > 0.0005).map(([k, name]) => `${name} ${(100 * shares[k]).toFixed(1)} %`).join(', ');
  return h('div', { class: 'stack', role: 'img', 'aria-label': `${label}: ${text}`, title: text }, SHARES.map(([k, , c]) =>
    h('i', { style: { width: `${100 * (shares[k] || 0)}%`, background: `var(${c})` } })));
}

function sharesOf(summary) {
  const rows = (summary.tasks || []).filter(t => t.time && t.time.shares).map(t => [t.name || `${t.role}/${t.index}`, t.time.shares]);
  if (!rows.length && summary.verdict && summary.verdict.shares) rows.push(['workers', summary.verdict.shares]);
  if (!rows.length) return null;
  const used = SHARES.filter(([k]) => rows.some(([, s]) => s[k] > 0.0005));
  return [h('div', { class: 'shares' }, rows.flatMap(([who, s]) => [h('span', { class: 'who' }, who), stack(s, who)])),
    h('div', { class: 'legend' }, used.map(([, name, c]) => h('span', {}, swatch(c), name)))];
}

export class Verdicts {
  constructor() { this.element = h('div', { class: 'verdicts' }); }

  draw() {
    const runs = selectedRuns().filter(r => r.summary && (r.summary.verdict || r.summary.error));
    this.element.replaceChildren(...runs.map(r => {
      const v = r.summary.verdict || {};
      return h('article', { class: 'card verdict' },
        h('h3', {}, swatch(runColour(r)), r.name),
        r.summary.error && h('div', { class: 'failure' }, r.summary.error),
        v.text && h('p', {}, v.text), sharesOf(r.summary),
        (v.warnings || []).map(w => h('div', { class: 'warning' }, w.text)),
        v.next_worker && v.next_worker.text && h('p', { class: 'next' }, v.next_worker.text));
    }));
    return runs.length > 0;
  }
}

const TASK_COLUMNS = [['cpu_percent_mean', 'CPU mean', v => isNumber(v) ? `${v.toFixed(0)} %` : '–'],
  ['cpu_percent_peak', 'CPU peak', v => isNumber(v) ? `${v.toFixed(0)} %` : '–'],
  ['rss_peak_bytes', 'memory peak', bytes], ['net_sent_bytes', 'sent', bytes], ['net_received_bytes', 'received', bytes],
  ['disk_read_bytes', 'disk read', bytes], ['disk_written_bytes', 'disk written', bytes], ['steps', 'steps', number],
  ['examples', 'examples', number], ['test_accuracy', 'test accuracy', percent],
  ['test_rmse', 'test RMSE', v => number(v, 5)]];

/** What each task of a run used. */
export function taskTable(run) {
  const tasks = run && run.summary && run.summary.tasks;
  if (!tasks || !tasks.length) return null;
  const columns = TASK_COLUMNS.filter(([k]) => tasks.some(t => t[k] !== undefined && t[k] !== null));
  return h('div', { class: 'card' }, h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { class: 'word', scope: 'col' }, 'task'), columns.map(([, name]) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, tasks.map(t => h('tr', {}, h('td', { class: 'word' }, t.name || `${t.role}/${t.index}`),
      columns.map(([k, , show]) => h('td', {}, show(t[k])))))))));
}

/** A choice of the run that a section shows. */
export function runChoice() {
  const choice = h('select', { class: 'no-print', 'aria-label': 'run shown', onchange: e => {
    store.focus = Number(e.target.value);
    changed('focus');
  } });
  return {
    element: choice,
    draw(run) {
      choice.replaceChildren(...store.runs.map(r => h('option', { value: String(r.id), selected: run && r.id === run.id }, r.name)));
    },
  };
}
