// A chart by uPlot: several curves over one axis, with the range of what was thinned out as a band around its mean.
import { colour, h, hideTip, number, short, showTip } from './dom.js';

const HEIGHT = 216;
const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", sans-serif';
const LAST_TICK = 24; // pixels to the right, for half of the last label of the x axis
const MARKED_POINTS = 8; // a curve with fewer shows each
const SMOOTHED_POINTS = 10; // a curve with fewer is left as it is
const NEAR = .04; // of the width: how far from the ends of a curve its values are told

export const isSmoothed = values => values.length >= SMOOTHED_POINTS;

/** Exponential mean, without the pull of its start. */
export function smooth(values, weight) {
  if (!weight || !isSmoothed(values)) return values;
  let sum = 0, share = 0;
  return values.map(v => {
    if (v === null || v === undefined) return v;
    sum = weight * sum + (1 - weight) * v;
    share = weight * share + (1 - weight);
    return sum / share;
  });
}

/** The index nearest to `at` where the values have one. */
function nearest(values, at) {
  for (let d = 0; d < values.length; d++) {
    if (at - d >= 0 && values[at - d] !== null && values[at - d] !== undefined) return at - d;
    if (at + d < values.length && values[at + d] !== null && values[at + d] !== undefined) return at + d;
  }
  return null;
}

function alpha(c, share) {
  return `color-mix(in srgb, ${c} ${Math.round(100 * share)}%, transparent)`;
}
/** For a canvas: a colour as #rrggbb, with so much of it seen. */
function see(c, share) {
  return /^#[0-9a-f]{6}$/i.test(c) ? c + Math.round(255 * share).toString(16).padStart(2, '0') : alpha(c, share);
}

export class Chart {
  /**
   * title, unit, format(value), xLabel(), group: charts that share a cursor and a zoom;
   * zoomed(): {from, to} or null; zoom(range): asks for another.
   */
  constructor(options) {
    this.options = { format: number, height: HEIGHT, ...options };
    this.plot = h('div', { class: 'plot', tabindex: '0', role: 'img', onkeydown: e => this.key(e), onblur: () => hideTip() });
    this.by = h('span', { class: 'by' });
    this.spoken = h('div', { class: 'visually-hidden', 'aria-live': 'polite' });
    this.element = h('article', { class: 'card chart' },
      h('header', {}, h('h3', {}, options.title), h('span', {}, options.unit || ''), this.by), this.plot, this.spoken);
    this.curves = [];
    this.structure = '';
    this.watch = new ResizeObserver(() => this.fit());
    this.watch.observe(this.plot);
  }

  destroy() {
    this.watch.disconnect();
    if (this.u) this.u.destroy();
    this.u = null;
  }

  /** curves: [{name, colour (a custom property), x, mean, least, most, dash, hollow}]; style: {smoothing, logarithmic, theme} */
  draw(curves, style) {
    this.curves = curves;
    this.style = style;
    const structure = JSON.stringify([curves.map(c => [c.name, c.colour, !!c.least, !!c.dash, c.mean.length <= MARKED_POINTS]),
      style, this.options.xLabel()]);
    const data = this.join();
    this.by.textContent = `by ${this.options.xLabel()}`;
    this.plot.setAttribute('aria-label', `${this.options.title}: ${curves.map(c => c.name).join(', ')}. ` +
      'Arrow keys move along the curve, plus and minus zoom, 0 shows everything.');
    if (structure !== this.structure || !this.u) {
      if (this.u) this.u.destroy();
      this.structure = structure;
      this.build(data);
    } else {
      this.u.setData(data, false);
      this.rescale();
    }
  }

  /** One table for all curves: each brings its own places on the x axis. */
  join() {
    const positive = v => this.style.logarithmic && v <= 0 ? null : v;
    const tables = this.curves.map(c => {
      const columns = [c.x, smooth(c.mean, this.style.smoothing).map(positive)];
      if (this.style.smoothing) columns.push(c.mean.map(positive));
      if (c.least) columns.push(c.least.map(positive), c.most.map(positive));
      return columns;
    });
    if (!tables.length) return [[0, 1]];
    return tables.length === 1 ? tables[0] : uPlot.join(tables);
  }

  build(data) {
    const series = [{}], bands = [];
    this.shown = []; // number of the series that stands for each curve
    for (const c of this.curves) {
      const stroke = colour(c.colour);
      this.shown.push(series.length);
      series.push({ label: c.name, stroke, width: 1.6, dash: c.dash, spanGaps: true,
        points: { show: c.mean.length <= MARKED_POINTS, size: c.hollow ? 6 : 5, width: 1.4, fill: c.hollow ? colour('--card') : stroke } });
      const edge = { stroke: 'transparent', width: 0, spanGaps: true, points: { show: false } };
      if (this.style.smoothing)
        series.push({ stroke: see(stroke, .28), width: 1, spanGaps: true, points: { show: false } });
      if (c.least) {
        bands.push({ series: [series.length + 1, series.length], fill: see(stroke, this.style.smoothing ? .09 : .18) });
        series.push({ ...edge }, { ...edge });
      }
    }
    const axis = { stroke: colour('--soft'), font: FONT, grid: { stroke: colour('--grid'), width: 1 },
      ticks: { show: false }, gap: 6 };
    const options = {
      width: Math.max(this.plot.clientWidth, 120), height: this.options.height, series, bands,
      legend: { show: false }, padding: [8, LAST_TICK, 0, 0],
      scales: { x: { time: false, range: () => this.range() },
        y: this.style.logarithmic ? { distr: 3 } : { range: (u, least, most) => this.rangeOf(least, most) } },
      axes: [
        { ...axis, size: 26, values: (u, v) => v.map(short) },
        { ...axis, size: (u, values) => values ? Math.max(36, 14 + 6.6 * Math.max(...values.map(v => String(v).length))) : 36,
          values: (u, v) => v.map(x => x === null ? '' : (this.options.tick || short)(x)) },
      ],
      cursor: { drag: { x: true, y: false, setScale: false }, sync: this.options.group ? { key: this.options.group, scales: ['x', null] } : undefined,
        points: { size: 7, width: 2, fill: colour('--card') },
        dataIdx: (u, s, at) => this.shown.includes(s) ? nearest(u.data[s], at) : null },
      hooks: {
        setSelect: [u => {
          if (u.select.width < 4) return;
          const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
          u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          this.options.zoom({ from, to });
        }],
      },
    };
    this.u = new uPlot(options, data, this.plot);
    this.u.over.addEventListener('dblclick', () => this.options.zoom(null));
    this.u.over.addEventListener('mousemove', e => this.tell(e.clientX, e.clientY));
    this.u.over.addEventListener('mouseleave', hideTip);
  }

  range() {
    const zoomed = this.options.zoomed();
    if (zoomed) return [zoomed.from, zoomed.to];
    let least = Infinity, most = -Infinity;
    for (const c of this.curves) {
      if (!c.x.length) continue;
      least = Math.min(least, c.x[0]);
      most = Math.max(most, c.x[c.x.length - 1]);
    }
    if (!(least <= most)) return [0, 1];
    return least === most ? [least - .5, most + .5] : [least, most];
  }

  /** Of the y axis. uPlot leaves no room for ticks where a smoothed curve is all but flat. */
  rangeOf(least, most) {
    if (least === null) return [null, null];
    const soft = this.options.from, [from, to] = uPlot.rangeNum(least, most,
      { min: { pad: .08, soft, mode: soft === undefined ? 0 : 1 }, max: { pad: .08, mode: 0 } });
    if (to - from > 1e-6 * Math.abs(to)) return [from, to];
    const around = .01 * Math.abs(most) || 1;
    return [least - around, most + around];
  }

  rescale() {
    if (!this.u) return;
    const [min, max] = this.range();
    this.u.setScale('x', { min, max });
  }

  fit() {
    const width = this.plot.clientWidth;
    if (this.u && width && width !== this.u.width) this.u.setSize({ width, height: this.options.height });
  }

  /** What the cursor stands on: [[colour, name, value, value before smoothing], ...]; x of it */
  under() {
    const u = this.u, rows = [], [from, to] = this.range();
    if (!u || u.cursor.idx === null || u.cursor.idx === undefined) return null;
    this.curves.forEach((c, i) => {
      const at = nearest(u.data[this.shown[i]], u.cursor.idx);
      const x = u.data[0][u.cursor.idx], beside = NEAR * (to - from);
      if (at === null || x < c.x[0] - beside || x > c.x[c.x.length - 1] + beside) return;
      const value = this.options.format(u.data[this.shown[i]][at]);
      const raw = this.style.smoothing ? this.options.format(u.data[this.shown[i] + 1][at]) : value;
      rows.push([`var(${c.colour})`, c.name, value, raw === value ? null : raw]);
    });
    return { x: u.data[0][u.cursor.idx], rows };
  }

  tell(x, y) {
    const found = this.under();
    if (!found || !found.rows.length) return hideTip();
    showTip(x, y, `${this.options.xLabel()} ${number(found.x, 6)}`, found.rows);
  }

  key(e) {
    if (!this.u || !this.curves.length) return;
    const u = this.u, width = u.over.clientWidth;
    let left = u.cursor.left >= 0 ? u.cursor.left : width / 2;
    const [from, to] = this.range(), middle = u.posToVal(left, 'x');
    const scale = factor => this.options.zoom({ from: middle - (middle - from) * factor, to: middle + (to - middle) * factor });
    const moves = { ArrowLeft: -1, ArrowRight: 1, Home: -1e9, End: 1e9 };
    if (e.key in moves) {
      left = Math.min(width, Math.max(0, left + moves[e.key] * width / (e.shiftKey ? 10 : 100)));
      u.setCursor({ left, top: u.over.clientHeight / 2 });
      const box = u.over.getBoundingClientRect();
      this.tell(box.left + left, box.top + box.height / 2);
      const found = this.under();
      if (found) this.spoken.textContent = `${this.options.xLabel()} ${number(found.x, 6)}: ${found.rows.map(r => `${r[1]} ${r[2]}`).join(', ')}`;
    } else if (e.key === '+' || e.key === '=') {
      scale(.5);
    } else if (e.key === '-') {
      scale(2);
    } else if (e.key === '0' || e.key === 'Escape') {
      this.options.zoom(null);
      hideTip();
    } else {
      return;
    }
    e.preventDefault();
  }
}

/** Charts kept by title, so that a redraw keeps what does not change. */
export class ChartGrid {
  constructor(className = 'grid') {
    this.element = h('div', { class: className });
    this.charts = new Map();
  }

  /** wanted: [{options, curves}]; charts without curves go. */
  draw(wanted, style) {
    const kept = wanted.filter(w => w.curves.length);
    const titles = new Set(kept.map(w => w.options.title));
    for (const [title, chart] of this.charts)
      if (!titles.has(title)) {
        chart.destroy();
        chart.element.remove();
        this.charts.delete(title);
      }
    kept.forEach((w, i) => {
      let chart = this.charts.get(w.options.title);
      if (!chart) {
        chart = new Chart(w.options);
        this.charts.set(w.options.title, chart);
      }
      chart.options = { ...chart.options, ...w.options };
      if (this.element.children[i] !== chart.element) this.element.insertBefore(chart.element, this.element.children[i] || null);
      chart.draw(w.curves, w.style ? { ...style, ...w.style } : style);
    });
  }

  rescale() { for (const c of this.charts.values()) c.rescale(); }
}
