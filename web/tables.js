// The results of the selected runs, and what their verdicts say.
import { bytes, h, isNumber, number, percent, seconds } from './dom.js';
import { changed, runColour, runState, selectedRuns, store } from './store.js';

const strategy = s => s.strategy === 'single' ? 'single' : [s.strategy, s.mode].filter(Boolean).join(' ');
const COLUMNS = [
  { key: 'model', head: 'model', word: true },
  { key: 'strategy', head: 'strategy', word: true, of: strategy },
  { key: 'workers', head: 'workers' },
  { key: 'batch_size', head: 'batch' },
  { key: 'global_batch', head: 'global batch' },
  { key: 'effective_learning_rate', head: 'effective lr' },
  { key: 'epochs', head: 'epochs' },
  { key: 'updates', head: 'updates' },
  { key: 'seconds', head: 'time', show: seconds, best: 'least' },
  { key: 'examples_per_second', head: 'examples/s', best: 'most' },
  { key: 'final_loss', head: 'final loss', best: 'least' },
  { key: 'test_accuracy', head: 'test accuracy', show: percent, best: 'most' },
];
const value = (c, run) => run.summary ? (c.of ? c.of(run.summary) : run.summary[c.key]) : null;

export class Results {
  constructor() {
    this.sort = null; // {key, down}
    this.element = h('div', { class: 'card' });
  }

  draw() {
    const runs = selectedRuns();
    if (this.sort) {
      const c = COLUMNS.find(x => x.key === this.sort.key), sign = this.sort.down ? -1 : 1;
      runs.sort((a, b) => {
        const x = value(c, a), y = value(c, b);
        if (x === y) return 0;
        if (x === null || x === undefined) return 1;
        if (y === null || y === undefined) return -1;
        return x < y ? -sign : sign;
      });
    }
    // A column that nobody fills says nothing.
    const columns = COLUMNS.filter(c => runs.some(r => value(c, r) !== null && value(c, r) !== undefined));
    const best = c => {
      const all = runs.map(r => value(c, r)).filter(isNumber);
      return c.best && all.length > 1 ? Math[c.best === 'least' ? 'min' : 'max'](...all) : null;
    };
    const bests = columns.map(best), states = runs.some(r => runState(r) !== 'finished');
    const head = c => h('th', { class: c.word ? 'word' : null, scope: 'col',
      'aria-sort': this.sort && this.sort.key === c.key ? (this.sort.down ? 'descending' : 'ascending') : null },
    h('button', { type: 'button', onclick: () => {
      this.sort = { key: c.key, down: this.sort && this.sort.key === c.key ? !this.sort.down : c.best === 'most' };
      this.draw();
    } }, c.head));
    const row = r => h('tr', {},
      h('td', { class: 'word name', title: r.name }, h('span', { class: 'swatch', style: { background: `var(${runColour(r)})` } }), r.name),
      columns.map((c, i) => {
        const v = value(c, r);
        return h('td', { class: [c.word ? 'word' : '', v !== null && v === bests[i] ? 'best' : ''].join(' ').trim() || null },
          c.show ? c.show(v) : typeof v === 'string' ? v : number(v));
      }),
      states && h('td', { class: 'word status', 'data-state': runState(r) }, runState(r)));
    this.element.replaceChildren(h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { class: 'word', scope: 'col' }, 'run'), columns.map(head), states && h('th', { class: 'word', scope: 'col' }, 'status'))),
      h('tbody', {}, runs.map(row)))));
    return runs.length > 0;
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
  const rows = (summary.tasks || []).filter(t => t.time && t.time.shares).map(t => [`${t.role}/${t.index}`, t.time.shares]);
  if (!rows.length && summary.verdict && summary.verdict.shares) rows.push(['workers', summary.verdict.shares]);
  if (!rows.length) return null;
  const used = SHARES.filter(([k]) => rows.some(([, s]) => s[k] > 0.0005));
  return [h('div', { class: 'shares' }, rows.flatMap(([who, s]) => [h('span', { class: 'who' }, who), stack(s, who)])),
    h('div', { class: 'legend' }, used.map(([, name, c]) => h('span', {}, h('span', { class: 'swatch', style: { background: `var(${c})` } }), name)))];
}

export class Verdicts {
  constructor() { this.element = h('div', { class: 'verdicts' }); }

  draw() {
    const runs = selectedRuns().filter(r => r.summary && (r.summary.verdict || r.summary.error));
    this.element.replaceChildren(...runs.map(r => {
      const v = r.summary.verdict || {};
      return h('article', { class: 'card verdict' },
        h('h3', {}, h('span', { class: 'swatch', style: { background: `var(${runColour(r)})` } }), r.name),
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
  ['examples', 'examples', number], ['test_accuracy', 'test accuracy', percent]];

/** What each task of a run used. */
export function taskTable(run) {
  const tasks = run && run.summary && run.summary.tasks;
  if (!tasks || !tasks.length) return null;
  const columns = TASK_COLUMNS.filter(([k]) => tasks.some(t => t[k] !== undefined && t[k] !== null));
  return h('div', { class: 'card' }, h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', { class: 'word', scope: 'col' }, 'task'), columns.map(([, name]) => h('th', { scope: 'col' }, name)))),
    h('tbody', {}, tasks.map(t => h('tr', {}, h('td', { class: 'word' }, `${t.role}/${t.index}`),
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
