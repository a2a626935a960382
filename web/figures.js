// The figures of a run that tables show, and which of them is the best.
import { isNumber, number, percent, seconds } from './dom.js';
import { column, runState, store, trackOf } from './store.js';

const strategy = s => s.strategy === 'ps' ? [s.strategy, s.mode].filter(Boolean).join(' ') : s.strategy;
const four = x => isNumber(x) ? x.toFixed(4) : '–';
const ofTwo = key => s => isNumber(s.test_auc) ? s[key] : null; // of two classes, which have an AUC

/** key, head, word: a text; of(figures); show(value); best: 'least' or 'most'; live: only while a run trains */
export const FIGURES = [
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
  { key: 'train_accuracy', head: 'train accuracy', show: percent, live: true },
  { key: 'test_accuracy', head: 'test accuracy', show: percent, best: 'most' },
  { key: 'test_loss', head: 'test log loss', show: four, of: ofTwo('test_loss'), best: 'least' },
  { key: 'test_auc', head: 'test AUC', show: four, best: 'most' },
  { key: 'test_f1', head: 'test F1', show: four, of: ofTwo('test_f1'), best: 'most' },
  { key: 'test_mae', head: 'test MAE', show: x => number(x, 5), best: 'least' },
  { key: 'test_rmse', head: 'test RMSE', show: x => number(x, 5), best: 'least' },
  { key: 'test_r2', head: 'test R²', show: four, best: 'most' },
];

export const isUnderWay = run => !(run.summary && run.summary.status) && runState(run) === 'running';

const lastOf = (track, name) => {
  const c = column(track, name);
  return c ? c.mean.findLast(v => v !== null && v !== undefined) : null;
};

/** What settings and curves say of a run that has no summary yet. */
function soFar(run) {
  const flags = (run.settings && run.settings.flags) || {}, step = trackOf(run, 'step') || trackOf(run, 'epoch');
  const epochs = trackOf(run, 'epoch'), test = trackOf(run, 'eval');
  const workers = flags.workers || 1, batch = flags['batch-size'];
  return { model: run.settings && run.settings.model, strategy: flags.strategy, mode: flags.mode, workers, batch_size: batch,
    global_batch: flags['global-batch'] || (batch && batch * (flags.strategy === 'ps' && flags.mode === 'async' ? 1 : workers)),
    effective_learning_rate: isNumber(flags.lr) ? flags.lr * (flags['scale-lr'] ? workers : 1) : null,
    epochs: epochs ? epochs.rows : 0, updates: lastOf(step, 'step'), seconds: lastOf(step, 'seconds'),
    examples_per_second: lastOf(step, 'examples_per_second'), final_loss: lastOf(step, 'loss'),
    train_accuracy: lastOf(step, 'accuracy'), test_accuracy: lastOf(test, 'accuracy'), test_loss: lastOf(test, 'loss'),
    test_auc: lastOf(test, 'auc'), test_f1: lastOf(test, 'f1'), test_mae: lastOf(test, 'mae'), test_rmse: lastOf(test, 'rmse'), test_r2: lastOf(test, 'r2') };
}

/** The figures of a run: its summary, or how far it is. */
export function figuresOf(run) {
  if (!isUnderWay(run)) return run.summary || {};
  return soFar(run);
}

export function figure(f, run) {
  const all = figuresOf(run), v = f.of ? f.of(all) : all[f.key];
  return v === undefined ? null : v;
}

export const showFigure = (f, v) => f.show ? f.show(v) : typeof v === 'string' ? v : number(v);

/** The best of all runs that have come to an end, shown or not; null where there is nothing to choose from. */
export function bestOfAll(f) {
  if (!f.best) return null;
  const all = store.runs.filter(r => !isUnderWay(r)).map(r => figure(f, r)).filter(isNumber);
  return all.length > 1 ? Math[f.best === 'least' ? 'min' : 'max'](...all) : null;
}
