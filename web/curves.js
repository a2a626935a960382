// Loss, accuracy, speed and rate of the selected runs.
import { h, keyOf, number, percent, svg } from './dom.js';
import { ChartGrid, isSmoothed } from './chart.js';
import { column, runColour, selectedRuns, setZoom, store, trackOf } from './store.js';

export const X_NAMES = { step: 'step', seconds: 'seconds', examples: 'examples' };
const KINDS = { training: {}, validation: { dash: [7, 4] }, test: { dash: [2, 3], hollow: true },
  'test by the evaluator': { dash: [9, 3, 2, 3], hollow: true } };

function trackFor(run, kind, name) {
  const track = trackOf(run.detail ? { tracks: run.detail } : run, kind, name); // while zoomed in a finer part may be there
  const epochs = kind === 'step' ? trackOf(run, 'epoch', name) : null; // of a short run there are more of these than samples
  return epochs && (!track || track.rows < epochs.rows) ? epochs : track;
}

/** A curve of a run, or null. */
function curve(run, [track, name, kind]) {
  const t = trackFor(run, track, name), y = column(t, name), x = column(t, store.by);
  if (!x || !y || !y.mean.some(v => v !== null)) return null;
  // A sample without a place, which a broken run may hold, cannot be drawn.
  const good = x.mean.map((v, i) => v !== null && (!i || v > x.mean[i - 1]));
  const pick = a => a && (good.every(Boolean) ? a : a.filter((_, i) => good[i]));
  return { name: kind === 'training' ? run.name : `${run.name} · ${kind}`, kind, colour: runColour(run), x: pick(x.mean), mean: pick(y.mean),
    least: pick(y.least), most: pick(y.most), ...KINDS[kind] };
}

const CHARTS = [
  { title: 'Loss', parts: [['step', 'loss', 'training'], ['epoch', 'validation_loss', 'validation'], ['eval', 'loss', 'test'],
    ['checkpoint', 'loss', 'test by the evaluator']], logarithmic: true },
  { title: 'Accuracy', parts: [['step', 'accuracy', 'training'], ['epoch', 'validation_accuracy', 'validation'], ['eval', 'accuracy', 'test'],
    ['checkpoint', 'accuracy', 'test by the evaluator']], format: percent, tick: v => `${Number((100 * v).toPrecision(4))} %` },
  { title: 'AUC', parts: [['eval', 'auc', 'test']] },
  { title: 'RMSE', parts: [['eval', 'rmse', 'test'], ['checkpoint', 'rmse', 'test by the evaluator']] },
  { title: 'R²', parts: [['eval', 'r2', 'test'], ['checkpoint', 'r2', 'test by the evaluator']] },
  { title: 'Examples per second', parts: [['step', 'examples_per_second', 'training']], from: 0 },
  { title: 'Steps per second', parts: [['step', 'steps_per_second', 'training']], from: 0 },
  { title: 'Learning rate', parts: [['step', 'rate', 'training']], from: 0, plain: true },
  { title: 'Staleness', parts: [['step', 'staleness', 'training']], from: 0, unit: 'updates' },
];

/** How a kind of curve looks: a line, a lone point, a band. */
function sample(kind, what) {
  const { dash, hollow } = KINDS[kind], parts = [];
  if (what === 'band') parts.push(svg('rect', { x: 0, y: 1, width: 24, height: 8, class: 'band' }));
  if (what === 'line') parts.push(svg('line', { x1: 0, y1: 5, x2: 24, y2: 5, 'stroke-dasharray': (dash || []).join(' ') }));
  if (what === 'faint') parts.push(svg('line', { x1: 0, y1: 5, x2: 24, y2: 5, class: 'faint' }));
  if (what === 'point') parts.push(svg('circle', { cx: 12, cy: 5, r: 3, class: hollow ? 'hollow' : 'full' }));
  return svg('svg', { class: 'sample', width: 24, height: 10, 'aria-hidden': 'true' }, ...parts);
}

/** What the kinds of lines and points in these charts mean. */
function key(wanted) {
  const curves = wanted.flatMap(w => w.curves.map(c => ({ ...c, smoothed: w.style.smoothing > 0 }))), entries = [];
  for (const kind of Object.keys(KINDS)) {
    const mine = curves.filter(c => c.kind === kind);
    if (mine.some(c => c.x.length > 1)) entries.push([sample(kind, 'line'), kind]);
    if (mine.some(c => c.x.length === 1)) entries.push([sample(kind, 'point'), `${kind}, measured once`]);
  }
  if (curves.some(c => c.smoothed && isSmoothed(c.mean))) entries.push([sample('training', 'faint'), 'before smoothing']);
  if (curves.some(c => c.least)) entries.push([sample('training', 'band'), 'range of what a point stands for']);
  return keyOf(entries);
}

export class Curves {
  constructor() {
    this.grid = new ChartGrid();
    this.key = h('div', { class: 'key' });
    this.element = h('div', {}, this.key, this.grid.element);
  }

  draw(theme) {
    const runs = selectedRuns();
    const wanted = CHARTS.map(c => ({
      options: { title: c.title, unit: c.unit, format: c.format || number, tick: c.tick, from: c.from, group: 'curves',
        xLabel: () => X_NAMES[store.by], zoomed: () => store.zoom, zoom: setZoom },
      style: { logarithmic: !!(c.logarithmic && store.logarithmic), smoothing: c.plain ? 0 : store.smoothing },
      curves: c.parts.flatMap(part => runs.map(r => curve(r, part))).filter(Boolean),
    }));
    this.grid.draw(wanted, { theme });
    this.key.replaceChildren(key(wanted));
    return wanted.some(w => w.curves.length);
  }

  rescale() { this.grid.rescale(); }
}
