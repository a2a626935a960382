// The confusion matrix of the run in focus: a square a pair of classes, with its count, the darker the larger its share of
// the rows of the class.
import { h, number, percent, svg, showTip, hideTip } from './dom.js';
import { focusedRun } from './store.js';

const CELL = 46;
const LETTER = 7, MARGIN = 34; // of names, which are at the left and above

const short = text => text.length > 14 ? `${text.slice(0, 13)}…` : text;

function cell(counts, names, left, i, k) {
  const total = counts[i].reduce((a, b) => a + b, 0), n = counts[i][k], share = total ? n / total : 0;
  const x = left + k * CELL, y = left + i * CELL;
  const square = svg('rect', { x, y, width: CELL - 2, height: CELL - 2, rx: 4 });
  square.style.fill = `color-mix(in srgb, var(--heat-high) ${Math.round(100 * share)}%, var(--heat-low))`;
  const box = svg('g', {}, square, svg('text', { x: x + CELL / 2 - 1, y: y + CELL / 2 + 4, 'text-anchor': 'middle',
      class: share > 0.5 ? 'on-dark' : i === k ? 'right' : n ? 'wrong' : 'none' }, number(n)));
  box.addEventListener('mousemove', e => showTip(e.clientX, e.clientY, `rows of ${names[i]}`,
    [['var(--heat-high)', `taken for ${names[k]}`, number(n), ` ${percent(share)}`]]));
  box.addEventListener('mouseleave', hideTip);
  return box;
}

function picture(counts, names) {
  const n = counts.length, left = MARGIN + LETTER * Math.max(...names.map(x => short(x).length));
  const side = left + n * CELL + 8, middle = left + n * CELL / 2;
  const rows = names.map((name, i) => svg('text',
    { x: left - 8, y: left + i * CELL + CELL / 2 + 4, 'text-anchor': 'end' }, short(name)));
  const columns = names.map((name, k) => svg('text',
    { transform: `translate(${left + k * CELL + CELL / 2 + 4} ${left - 8}) rotate(-90)` }, short(name)));
  return svg('svg', { class: 'confusion', viewBox: `0 0 ${side} ${side}`, width: side, height: side, role: 'img',
    'aria-label': 'test rows of each class, by the class they were taken for' },
  svg('text', { x: middle, y: 12, 'text-anchor': 'middle', class: 'axis' }, 'taken for'),
  svg('text', { transform: `translate(12 ${middle}) rotate(-90)`, 'text-anchor': 'middle', class: 'axis' }, 'class'),
  ...rows, ...columns, ...counts.flatMap((row, i) => row.map((_, k) => cell(counts, names, left, i, k))));
}

export class Confusion {
  constructor() {
    this.body = h('div', { class: 'scroll' });
    this.element = h('div', { class: 'card' }, this.body);
  }

  draw() {
    const run = focusedRun(), s = (run && run.summary) || {}, counts = s.test_confusion;
    if (!Array.isArray(counts) || !counts.length) return false;
    const names = counts.map((_, i) => String((s.class_names && s.class_names[i]) ?? i));
    this.body.replaceChildren(picture(counts, names));
    return true;
  }
}
