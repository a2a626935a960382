// Elements and texts. Nothing here, or anywhere in the page, turns a text into markup.

/** h('td', {class: 'name', onclick: f}, 'text', child, ...) */
export function h(tag, attributes, ...children) {
  const e = document.createElement(tag);
  set(e, attributes);
  e.append(...children.flat().filter(c => c !== null && c !== undefined && c !== false));
  return e;
}

/** The same for drawings. */
export function svg(tag, attributes, ...children) {
  const e = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [key, value] of Object.entries(attributes || {})) e.setAttribute(key, value);
  e.append(...children);
  return e;
}

function set(e, attributes) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith('on')) e.addEventListener(key.slice(2), value);
    else if (key === 'style') for (const [k, v] of Object.entries(value)) e.style.setProperty(k, v);
    else if (key in e && typeof value !== 'string') e[key] = value;
    else e.setAttribute(key, value === true ? '' : value);
  }
}

export const colour = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function isNumber(x) { return typeof x === 'number' && Number.isFinite(x); }

/** 12345.678 as "12,346", 0.0123 as "0.0123". */
export function number(x, digits = 4) {
  if (!isNumber(x)) return '–';
  const size = Math.abs(x);
  if (size >= 1000) return Math.round(x).toLocaleString('en-US');
  if (Number.isInteger(x)) return String(x);
  if (size !== 0 && size < 1e-4) return x.toExponential(2);
  return String(Number(x.toPrecision(digits)));
}

/** For axes: 1.2k, 3M. */
export function short(x) {
  if (!isNumber(x)) return '';
  const size = Math.abs(x);
  for (const [unit, name] of [[1e12, 'T'], [1e9, 'G'], [1e6, 'M'], [1e4, 'k']])
    if (size >= unit) return `${Number((x / (unit === 1e4 ? 1e3 : unit)).toPrecision(4))}${name}`;
  if (size !== 0 && size < 1e-3) return x.toExponential(0);
  return String(Number(x.toPrecision(6)));
}

/** A long name that may be broken after commas and slashes. */
export const breakable = name => name.split(/(?<=[,/])/).flatMap((part, i) => i ? [h('wbr'), part] : [part]);

/** "1 run", "12 runs" */
export const counted = (n, noun) => `${number(n)} ${noun}${n === 1 ? '' : 's'}`;

export function bytes(x) {
  if (!isNumber(x)) return '–';
  let unit = 0;
  for (; Math.abs(x) >= 1000 && unit < 4; unit++) x /= 1000;
  return `${unit ? Number(x.toPrecision(3)) : Math.round(x)} ${['B', 'kB', 'MB', 'GB', 'TB'][unit]}`;
}

export const percent = x => isNumber(x) ? `${(100 * x).toFixed(2)} %` : '–';

export function seconds(x) {
  if (!isNumber(x)) return '–';
  if (x < 60) return `${Number(x.toPrecision(3))} s`;
  const s = Math.round(x), two = n => String(n).padStart(2, '0');
  return s < 3600 ? `${Math.floor(s / 60)}:${two(s % 60)}` : `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`;
}

/** Buttons of which one is pressed. choices: [[value, label], ...] */
export function segments(label, choices, value, choose) {
  const box = h('div', { class: 'segments', role: 'group', 'aria-label': label });
  for (const [key, name] of choices) {
    box.append(h('button', {
      type: 'button', 'aria-pressed': String(key === value),
      onclick: e => {
        for (const b of box.children) b.setAttribute('aria-pressed', String(b === e.currentTarget));
        choose(key);
      },
    }, name));
  }
  return box;
}

/** A key of what is drawn. entries: [[swatch, text], ...] */
export const keyOf = entries => h('div', { class: 'legend' }, entries.map(([sample, text]) => h('span', {}, sample, text)));
export const swatch = c => h('span', { class: 'swatch', style: { background: `var(${c})` } });

/** One tooltip for everything that is pointed at. rows: [[colour, name, value, beside it in small], ...] */
const tip = h('div', { class: 'tip', hidden: true, role: 'presentation' });
export function showTip(x, y, where, rows) {
  if (!tip.isConnected) document.body.append(tip);
  tip.replaceChildren(h('div', { class: 'where' }, where), ...rows.map(([c, name, value, small]) =>
    h('div', { class: 'row' }, h('span', { class: 'swatch', style: { background: c } }), h('span', {}, name), h('b', {}, value, small && h('small', {}, small)))));
  tip.hidden = false;
  const w = tip.offsetWidth, t = tip.offsetHeight;
  tip.style.left = `${x + 16 + w > innerWidth ? Math.max(4, x - w - 16) : x + 16}px`;
  tip.style.top = `${Math.max(4, Math.min(y - t / 2, innerHeight - t - 4))}px`;
}
export function hideTip() { tip.hidden = true; }
