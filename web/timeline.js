// The timeline of one run: a row a thread, a box for each thing it did.
import { colour, h, hideTip, number, showTip, swatch } from './dom.js';
import { focusedRun, traceOf } from './store.js';

const ROW = 17, HEAD = 20, TASK = 20, LABEL = 118;
const CATEGORIES = { op: '--c2', step: '--line-strong', sync: '--c5', message: '--c0', wait: '--c1', server: '--c3' };

export class Timeline {
  constructor() {
    this.canvas = h('canvas', { tabindex: '0', role: 'img', onmousemove: e => this.hover(e), onmouseleave: hideTip,
      onkeydown: e => this.key(e), ondblclick: () => this.show(null), onpointerdown: e => this.grab(e) });
    this.canvas.addEventListener('wheel', e => this.wheel(e), { passive: false });
    this.legend = h('div', { class: 'legend' });
    this.element = h('div', { class: 'card timeline' }, this.canvas, this.legend);
    this.watch = new ResizeObserver(() => this.paint());
    this.watch.observe(this.element);
  }

  async draw() {
    const run = focusedRun(), trace = await traceOf(run);
    if (!trace || !trace.events.length) return false;
    if (this.trace !== trace) this.take(trace);
    this.paint();
    return true;
  }

  /** Puts events into rows: threads of tasks, and within a thread as deep as they are nested. */
  take(trace) {
    this.trace = trace;
    const names = new Map(trace.tasks.map(([p, t, name]) => [`${p}/${t}`, name]));
    const threads = new Map();
    for (const e of trace.events) {
      const key = `${e[0]}/${e[1]}`;
      if (!threads.has(key)) threads.set(key, { task: e[0], thread: e[1], events: [] });
      threads.get(key).events.push(e);
    }
    const sorted = [...threads.values()].sort((a, b) => a.task - b.task || a.thread - b.thread);
    this.boxes = [];
    this.labels = [];
    let y = HEAD, task = null;
    for (const t of sorted) {
      if (t.task !== task) {
        task = t.task;
        this.labels.push({ y: y + 13, text: names.get(`${task}/-1`) || `task ${task}`, strong: true });
        y += TASK;
      }
      const ends = [];
      t.events.sort((a, b) => a[4] - b[4] || b[5] - a[5]);
      for (const e of t.events) {
        let depth = ends.findIndex(end => end <= e[4] + .01);
        if (depth < 0) depth = ends.length;
        ends[depth] = e[4] + e[5];
        this.boxes.push({ y: y + depth * ROW, from: e[4], to: e[4] + e[5], name: trace.names[e[2]], category: trace.names[e[3]] });
      }
      this.labels.push({ y: y + 12, text: names.get(`${t.task}/${t.thread}`) || `thread ${t.thread}` });
      y += ends.length * ROW + 4;
    }
    this.height = y + 6;
    this.begin = Math.min(...this.boxes.map(b => b.from));
    this.end = Math.max(...this.boxes.map(b => b.to));
    this.view = { from: this.begin, to: this.end };
    this.canvas.setAttribute('aria-label', `Timeline of ${sorted.length} threads, ${this.boxes.length} events. ` +
      'Arrow keys move, plus and minus zoom, 0 shows everything.');
    const used = new Set(this.boxes.map(b => b.category));
    this.legend.replaceChildren(...Object.entries(CATEGORIES).filter(([c]) => used.has(c)).map(([c, v]) =>
      h('span', {}, swatch(v), c)),
    ...(trace.cut ? [h('span', {}, 'the beginning; trace.json holds all of it')] : []));
  }

  x(t) { return LABEL + (t - this.view.from) / (this.view.to - this.view.from) * (this.width - LABEL); }
  time(x) { return this.view.from + (x - LABEL) / (this.width - LABEL) * (this.view.to - this.view.from); }

  paint() {
    if (!this.trace) return;
    const ratio = devicePixelRatio || 1, c = this.canvas, g = c.getContext('2d');
    this.width = this.element.clientWidth - 28;
    if (this.width < 50) return;
    c.width = this.width * ratio;
    c.height = this.height * ratio;
    c.style.height = `${this.height}px`;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, this.width, this.height);
    g.font = '11px system-ui, sans-serif';
    const soft = colour('--soft'), text = colour('--text'), grid = colour('--grid'), card = colour('--card');
    const colours = Object.fromEntries(Object.entries(CATEGORIES).map(([k, v]) => [k, colour(v)]));
    const span = this.view.to - this.view.from, power = 10 ** Math.floor(Math.log10(span / 6));
    const every = [1, 2, 5, 10].map(f => f * power).find(s => span / s <= 8) || power * 10;
    for (let t = Math.ceil((this.view.from - this.begin) / every) * every; t <= this.view.to - this.begin; t += every) {
      const x = this.x(t + this.begin);
      g.fillStyle = grid;
      g.fillRect(x, HEAD - 4, 1, this.height);
      g.fillStyle = soft;
      g.fillText(`${Number((t / 1000).toPrecision(6))} ms`, x + 3, 11);
    }
    for (const b of this.boxes) {
      const from = Math.max(this.x(b.from), LABEL), to = Math.min(this.x(b.to), this.width);
      if (to < LABEL || from > this.width) continue;
      const w = Math.max(to - from - .5, .6);
      g.fillStyle = colours[b.category] || soft;
      g.fillRect(from, b.y, w, ROW - 3);
      if (w < 34) continue;
      g.save();
      g.beginPath();
      g.rect(from, b.y, w - 4, ROW);
      g.clip();
      g.fillStyle = b.category === 'step' ? text : card;
      g.fillText(b.name, from + 4, b.y + 11);
      g.restore();
    }
    g.fillStyle = card;
    g.fillRect(0, HEAD, LABEL - 4, this.height);
    for (const l of this.labels) {
      g.fillStyle = l.strong ? text : soft;
      g.font = l.strong ? '600 12px system-ui, sans-serif' : '11px system-ui, sans-serif';
      g.fillText(l.text, l.strong ? 0 : 8, l.y, LABEL - 12);
    }
  }

  show(view) {
    if (!view) view = { from: this.begin, to: this.end };
    const least = .5, width = Math.min(Math.max(view.to - view.from, least), this.end - this.begin);
    const from = Math.min(Math.max(view.from, this.begin), this.end - width);
    this.view = { from, to: from + width };
    this.paint();
  }

  scale(factor, at) { this.show({ from: at - (at - this.view.from) * factor, to: at + (this.view.to - at) * factor }); }
  move(share) {
    const d = (this.view.to - this.view.from) * share;
    this.show({ from: this.view.from + d, to: this.view.to + d });
  }

  wheel(e) {
    if (!this.trace || !(e.ctrlKey || e.metaKey || Math.abs(e.deltaX) > Math.abs(e.deltaY))) return;
    e.preventDefault();
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) this.move(e.deltaX / this.width);
    else this.scale(Math.exp(e.deltaY / 300), this.time(e.offsetX));
  }

  grab(e) {
    const from = e.clientX, view = { ...this.view }, pixels = (view.to - view.from) / (this.width - LABEL);
    const move = m => this.show({ from: view.from - (m.clientX - from) * pixels, to: view.to - (m.clientX - from) * pixels });
    const end = () => {
      removeEventListener('pointermove', move);
      removeEventListener('pointerup', end);
    };
    addEventListener('pointermove', move);
    addEventListener('pointerup', end);
  }

  hover(e) {
    if (!this.trace || e.buttons) return hideTip();
    const t = this.time(e.offsetX);
    const b = this.boxes.filter(x => e.offsetY >= x.y && e.offsetY < x.y + ROW && t >= x.from && t <= x.to).pop();
    if (!b) return hideTip();
    showTip(e.clientX, e.clientY, `from ${number((b.from - this.begin) / 1000)} ms`,
      [[`var(${CATEGORIES[b.category] || '--soft'})`, b.name, `${number(b.to - b.from)} µs`]]);
  }

  key(e) {
    if (!this.trace) return;
    const middle = (this.view.from + this.view.to) / 2;
    const does = { ArrowLeft: () => this.move(-.1), ArrowRight: () => this.move(.1), '+': () => this.scale(.5, middle),
      '=': () => this.scale(.5, middle), '-': () => this.scale(2, middle), 0: () => this.show(null), Escape: () => this.show(null) }[e.key];
    if (!does) return;
    does();
    e.preventDefault();
  }
}
