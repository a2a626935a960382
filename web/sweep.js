// Sweeps: a cell for each combination of settings; and experiments beside the figures that were reported of them.
import { colour, h, isNumber, number, percent, seconds } from './dom.js';
import { changed, store, update } from './store.js';

/** key, name, text of a value, which is the best */
const METRICS = [['test_auc', 'Test AUC', x => number(x, 5), 'most'], ['test_accuracy', 'Test accuracy', percent, 'most'],
  ['test_r2', 'Test R²', x => number(x, 4), 'most'], ['test_rmse', 'Test RMSE', x => number(x, 5), 'least'],
  ['test_loss', 'Test loss', number, 'least'], ['seconds', 'Time', seconds, 'least'], ['examples_per_second', 'Examples per second', number, 'most'],
  ['final_loss', 'Final loss', number, 'least'], ['steps_per_second', 'Steps per second', number, 'most']];

function mix(low, high, share) {
  const parts = c => [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16));
  const a = parts(low), b = parts(high);
  return a.map((v, i) => Math.round(v + (b[i] - v) * share));
}

/** Mean and spread (the standard deviation) of what there is. */
function gather(values) {
  const good = values.filter(isNumber);
  if (!good.length) return null;
  const mean = good.reduce((s, v) => s + v, 0) / good.length;
  const spread = good.length > 1 ? Math.sqrt(good.reduce((s, v) => s + (v - mean) ** 2, 0) / (good.length - 1)) : null;
  return { mean, spread, n: good.length };
}

class Sweep {
  constructor(entry) {
    this.metric = null; // the first that there is
    this.body = h('div', { class: 'heats' });
    this.choice = h('select', { class: 'no-print', 'aria-label': 'figure shown', onchange: e => {
      this.metric = e.target.value;
      this.draw(this.entry);
    } });
    this.title = h('h3', {});
    this.element = h('div', { class: 'card' }, h('div', { class: 'head' }, this.title, this.choice), this.body);
    this.entry = entry;
  }

  /** Offers the figures that these runs have; returns the one that is chosen. */
  offer(cells) {
    const there = METRICS.filter(([key]) => cells.some(c => c.run && c.run.summary && isNumber(c.run.summary[key])));
    const chosen = there.find(([key]) => key === this.metric) || there[0] || METRICS[1];
    this.metric = chosen[0];
    this.choice.replaceChildren(...there.map(([key, name]) => h('option', { value: key, selected: key === this.metric }, name)));
    return chosen;
  }

  draw(entry) {
    this.entry = entry;
    const { axes, runs } = entry.sweep;
    this.title.textContent = entry.name;
    const known = new Map(store.runs.map(r => [r.name, r]));
    const full = name => known.get(`${entry.name}/${name}`) || known.get(name);
    const cells = runs.map(r => ({ values: r.values, run: full(r.name) }));
    const [, , show, wins] = this.offer(cells);
    const wide = axes.filter(a => a.values.length > 1);
    const columns = wide[0] || axes[0], rows = wide[1] || null, others = wide.slice(2);
    const at = axis => axes.indexOf(axis);
    const all = [];
    const cell = (fixed) => {
      const found = cells.filter(c => fixed.every(([axis, v]) => c.values[at(axis)] === v));
      const figure = gather(found.map(c => c.run && c.run.summary && c.run.summary[this.metric]));
      if (figure) all.push(figure.mean);
      return { figure, runs: found.map(c => c.run).filter(Boolean) };
    };
    const combine = axesLeft => axesLeft.length ? axesLeft[0].values.flatMap(v => combine(axesLeft.slice(1)).map(rest => [[axesLeft[0], v], ...rest])) : [[]];
    const tables = combine(others).map(fixed => ({ fixed, rows: (rows ? rows.values : [null]).map(rv => ({ rv,
      cells: columns.values.map(cv => cell([...fixed, [columns, cv], ...(rows ? [[rows, rv]] : [])])) })) }));
    const least = Math.min(...all), most = Math.max(...all), low = colour('--heat-low'), high = colour('--heat-high');
    const paint = ({ figure, runs: mine }) => {
      if (!figure) return h('td', {}, h('button', { type: 'button', class: 'hole', disabled: true }, '–'));
      const share = most > least ? (figure.mean - least) / (most - least) : .5, rgb = mix(low, high, share);
      const bright = (.299 * rgb[0] + .587 * rgb[1] + .114 * rgb[2]) > 140;
      const spread = figure.spread === null ? null : this.metric === 'test_accuracy' ? `± ${(100 * figure.spread).toFixed(2)}` : `± ${number(figure.spread, 2)}`;
      const best = most > least && figure.mean === (wins === 'most' ? most : least);
      return h('td', { class: best ? 'best' : null }, h('button', { type: 'button',
        title: `${best ? 'the best; ' : ''}show the curves of ${mine.length === 1 ? 'this run' : 'these runs'}`,
        style: { background: `rgb(${rgb.join(',')})`, color: bright ? '#16202a' : '#ffffff' },
        onclick: () => {
          store.selected = new Set(mine.map(r => r.id));
          store.focus = mine[0].id;
          changed('selection');
          update();
        } }, h('span', {}, show(figure.mean)), spread && h('small', {}, spread)));
    };
    this.body.replaceChildren(...tables.map(t => h('div', { class: 'scroll' }, h('table', { class: 'heat' },
      t.fixed.length ? h('caption', {}, t.fixed.map(([a, v]) => `${a.flag} ${v}`).join(', ')) : null,
      h('thead', {}, h('tr', {}, h('th', { class: 'axis' }, rows ? `${rows.flag} ↓  ${columns.flag} →` : columns.flag),
        columns.values.map(v => h('th', { scope: 'col' }, v)))),
      h('tbody', {}, t.rows.map(r => h('tr', {}, h('th', { scope: 'row' }, r.rv === null ? '' : r.rv), r.cells.map(paint))))))));
  }
}

function comparison(entry) {
  const c = entry.comparison;
  const numeric = c.columns.map((_, i) => c.rows.some(r => /^[\d.,–-]+( %| s| MB| MB\/s)?$/.test(String(r[i]))));
  return h('div', { class: 'card' }, h('div', { class: 'head' }, h('h3', {}, c.title)),
    h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, c.columns.map((name, i) => h('th', { class: numeric[i] ? null : 'word', scope: 'col' }, name)))),
      h('tbody', {}, c.rows.map(r => h('tr', {}, r.map((v, i) =>
        h('td', { class: [numeric[i] ? '' : 'word', /reported/.test(c.columns[i]) ? 'reported' : ''].join(' ').trim() || null }, String(v)))))))),
    (c.notes || []).map(n => h('p', { class: 'reported' }, n)));
}

export class Sweeps {
  constructor() {
    this.parts = new Map();
    this.element = h('div', {});
  }

  draw() {
    const shown = [];
    for (const s of store.sweeps) {
      if (s.comparison && s.comparison.columns) shown.push(comparison(s));
      if (!s.sweep || !s.sweep.axes || !s.sweep.axes.length) continue;
      if (!this.parts.has(s.id)) this.parts.set(s.id, new Sweep(s));
      const part = this.parts.get(s.id);
      part.draw(s);
      shown.push(part.element);
    }
    for (const e of shown) e.style.marginBottom = '14px';
    this.element.replaceChildren(...shown);
    return shown.length > 0;
  }
}
