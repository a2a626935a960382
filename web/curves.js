// Loss, accuracy, speed and rate of the selected runs.
import { number, percent } from './dom.js';
import { ChartGrid } from './chart.js';
import { column, runColour, selectedRuns, setZoom, store, trackOf } from './store.js';

export const X_NAMES = { step: 'step', seconds: 'seconds', examples: 'examples' };
const DASH = [5, 4];

/** A curve of a run, or null. While zoomed in a finer part may be there. */
function curve(run, kind, name, more) {
  const tracks = run.detail ? { tracks: run.detail } : run;
  let track = trackOf(tracks, kind);
  const epochs = kind === 'step' ? trackOf(run, 'epoch') : null; // of a short run there are more of these than samples
  if (epochs && (!track || track.rows < epochs.rows)) track = epochs;
  const y = column(track, name), x = column(track, store.by);
  if (!x || !y || !y.mean.some(v => v !== null)) return null;
  // A sample without a place, which a broken run may hold, cannot be drawn.
  const good = x.mean.map((v, i) => v !== null && (!i || v > x.mean[i - 1]));
  const pick = a => a && (good.every(Boolean) ? a : a.filter((_, i) => good[i]));
  return { name: run.name, colour: runColour(run), x: pick(x.mean), mean: pick(y.mean), least: pick(y.least), most: pick(y.most),
    ...more };
}

const CHARTS = [
  { title: 'Loss', parts: [['step', 'loss', {}], ['epoch', 'validation_loss', { dash: DASH, note: 'validation' }],
    ['eval', 'loss', { dash: DASH, note: 'test' }],
    ['checkpoint', 'loss', { dash: DASH, note: 'test by evaluator' }]], logarithmic: true, unit: 'training' },
  { title: 'Accuracy', parts: [['step', 'accuracy', {}], ['epoch', 'validation_accuracy', { dash: DASH, note: 'validation' }],
    ['eval', 'accuracy', { dash: DASH, note: 'test' }],
    ['checkpoint', 'accuracy', { dash: DASH, note: 'test by evaluator' }]], format: percent, unit: 'training',
  tick: v => `${Number((100 * v).toPrecision(4))} %` },
  { title: 'Examples per second', parts: [['step', 'examples_per_second', {}]], from: 0 },
  { title: 'Steps per second', parts: [['step', 'steps_per_second', {}]], from: 0 },
  { title: 'Learning rate', parts: [['step', 'rate', {}]], from: 0, plain: true },
  { title: 'Staleness', parts: [['step', 'staleness', {}]], from: 0, unit: 'updates' },
];

export class Curves {
  constructor() {
    this.grid = new ChartGrid();
    this.element = this.grid.element;
  }

  draw(theme) {
    const runs = selectedRuns();
    const wanted = CHARTS.map(c => ({
      options: { title: c.title, unit: c.unit, format: c.format || number, tick: c.tick, from: c.from, group: 'curves',
        xLabel: () => X_NAMES[store.by], zoomed: () => store.zoom, zoom: setZoom },
      style: { logarithmic: !!(c.logarithmic && store.logarithmic), smoothing: c.plain ? 0 : store.smoothing },
      curves: c.parts.flatMap(([kind, name, more]) => runs.map(r => {
        const made = curve(r, kind, name, more);
        if (made && more.note) made.name = `${r.name} · ${more.note}`;
        return made;
      })).filter(Boolean),
    }));
    this.grid.draw(wanted, { theme });
    return wanted.some(w => w.curves.length);
  }

  rescale() { this.grid.rescale(); }
}
