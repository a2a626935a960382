// What differs between the settings of the selected runs.
import { counted, h, isNumber, number } from './dom.js';
import { selectedRuns } from './store.js';
import { runCell } from './tables.js';

const DERIVED = new Set(['rate-scale']); // follows from others

/** {flag: value} of a run; null while it is not known. */
function settingsOf(run) {
  const s = run.settings;
  if (!s || !s.flags) return null;
  return { model: s.model, ...s.flags };
}

const show = v => v === null || v === undefined || v === '' ? '–' : v === true ? 'yes' : v === false ? 'no' : isNumber(v) ? number(v, 6) : String(v);

export class Settings {
  constructor() { this.element = h('div', { class: 'card' }); }

  draw() {
    const runs = selectedRuns().map(run => ({ run, flags: settingsOf(run) })).filter(r => r.flags);
    if (runs.length < 2) return false;
    const names = [...new Set(runs.flatMap(r => Object.keys(r.flags)))].filter(n => !DERIVED.has(n));
    const differs = names.filter(n => new Set(runs.map(r => show(r.flags[n]))).size > 1);
    const same = names.filter(n => !differs.includes(n) && show(runs[0].flags[n]) !== '–');
    const word = n => runs.some(r => r.flags[n] !== null && r.flags[n] !== undefined && !isNumber(r.flags[n]));
    const table = h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { class: 'word', scope: 'col' }, 'run'),
        differs.map(n => h('th', { class: word(n) ? 'word' : null, scope: 'col' }, n)))),
      h('tbody', {}, runs.map(r => h('tr', {}, runCell(r.run),
        differs.map(n => h('td', { class: word(n) ? 'word' : null }, show(r.flags[n]))))))));
    const open = this.element.querySelector('details');
    this.element.replaceChildren(...(differs.length ? [table] : [h('p', {}, 'These runs have the same settings.')]),
      h('details', { open: !!(open && open.open) }, h('summary', {}, `${counted(same.length, 'setting')} that they share`),
        h('p', { class: 'shared' }, same.map(n => h('span', {}, `${n} `, h('b', {}, show(runs[0].flags[n])))))));
    return true;
  }
}
