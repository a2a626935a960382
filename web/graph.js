// The operators of a training step, in layers from what is fed to what comes out.
import { h, segments, svg } from './dom.js';
import { focusedRun } from './store.js';

const W = 148, H = 40, GAP_X = 18, GAP_Y = 34, NODES_MOST = 400;

const base = name => name.replace(/:\d+$/, '');
const shape = o => o && o[1] ? `[${o[1].map(d => d === null ? '?' : d).join(', ')}]` : '';

/** {nodes with x, y; edges; width; height} */
function layOut(nodes) {
  const by = new Map(nodes.map(n => [n.name, n]));
  for (const n of nodes) n.from = [...new Set(n.inputs.map(base))].filter(i => by.has(i)).map(i => by.get(i));
  // Inputs come first in the file, so one pass gives each its layer.
  for (const n of nodes) n.layer = n.from.length ? 1 + Math.max(...n.from.map(f => f.layer)) : 0;
  // What feeds only a later layer, a weight for instance, stands just above it.
  const to = new Map(nodes.map(n => [n, []]));
  for (const n of nodes) for (const f of n.from) to.get(f).push(n);
  for (const n of nodes) if (!n.from.length && to.get(n).length) n.layer = Math.min(...to.get(n).map(t => t.layer)) - 1;
  const layers = [];
  for (const n of nodes) (layers[n.layer] = layers[n.layer] || []).push(n);
  // Each below the middle of what it takes: two sweeps untangle what these graphs have.
  for (let sweep = 0; sweep < 4; sweep++)
    for (const row of layers.filter(Boolean)) {
      row.forEach((n, i) => { if (n.order === undefined) n.order = i; });
      for (const n of row) {
        const near = [...n.from, ...to.get(n)].filter(o => o.order !== undefined);
        n.pull = near.length ? near.reduce((s, o) => s + o.order - (layers[o.layer].length - 1) / 2, 0) / near.length : 0;
      }
      row.sort((a, b) => a.pull - b.pull).forEach((n, i) => { n.order = i; });
    }
  const widest = Math.max(...layers.filter(Boolean).map(l => l.length));
  const width = widest * (W + GAP_X) + GAP_X;
  layers.forEach((row, l) => row.forEach((n, i) => {
    n.x = (width - row.length * (W + GAP_X) + GAP_X) / 2 + i * (W + GAP_X);
    n.y = GAP_Y / 2 + l * (H + GAP_Y);
  }));
  return { width, height: layers.length * (H + GAP_Y) };
}

const cut = (text, n) => text.length > n ? `…${text.slice(1 - n)}` : text;

export class Graph {
  constructor() {
    this.part = 'forward';
    this.box = h('div', { class: 'drawing', tabindex: '0', 'aria-label': 'graph of operators' });
    this.note = h('p', {});
    this.choice = segments('part of the graph', [['forward', 'Forward'], ['all', 'With gradients']], 'forward', p => {
      this.part = p;
      this.draw();
    });
    this.element = h('div', { class: 'card' }, h('div', { class: 'head no-print' }, this.choice, this.note), this.box);
  }

  draw() {
    const run = focusedRun(), graph = run && run.graph;
    if (!graph || !graph.nodes) return false;
    const key = `${run.id} ${run.revision} ${this.part}`;
    if (key === this.drawn) return true;
    this.drawn = key;
    const forward = n => n.part === 'forward' || n.part === 'state';
    let nodes = graph.nodes.map(n => ({ ...n }));
    if (this.part === 'forward') {
      nodes = nodes.filter(forward);
      // States that only an optimizer uses are no part of it.
      const used = new Set(nodes.flatMap(n => n.inputs.map(base)));
      nodes = nodes.filter(n => n.part !== 'state' || used.has(n.name));
    }
    const many = nodes.length > NODES_MOST;
    this.note.textContent = `${nodes.length} operators${many ? `, the first ${NODES_MOST} drawn` : ''}`;
    nodes = nodes.slice(0, NODES_MOST);
    if (!nodes.length) return false;
    const size = layOut(nodes);
    const edges = nodes.flatMap(n => n.from.map(f => {
      const x1 = f.x + W / 2, y1 = f.y + H, x2 = n.x + W / 2, y2 = n.y, bend = Math.max(14, (y2 - y1) / 2);
      return svg('path', { class: 'edge', d: `M${x1} ${y1}C${x1} ${y1 + bend} ${x2} ${y2 - bend} ${x2} ${y2}` });
    }));
    const boxes = nodes.map(n => {
      const title = svg('title', {});
      title.textContent = `${n.name}\n${n.op} ${(n.outputs || []).map(o => `${o[0]} ${shape(o)}`).join(', ')}${n.device ? `\n${n.device}` : ''}`;
      const name = svg('text', { x: n.x + W / 2, y: n.y + 17, 'text-anchor': 'middle' });
      name.textContent = cut(n.name, 20);
      const op = svg('text', { class: 'op', x: n.x + W / 2, y: n.y + 32, 'text-anchor': 'middle' });
      op.textContent = cut(`${n.op} ${shape((n.outputs || [])[0])}`, 25);
      return svg('g', { class: 'node', tabindex: '-1' }, title,
        svg('rect', { class: `box ${n.part}`, x: n.x, y: n.y, width: W, height: H, rx: 7 }), name, op);
    });
    this.box.replaceChildren(svg('svg', { width: size.width, height: size.height, viewBox: `0 0 ${size.width} ${size.height}` }, ...edges, ...boxes));
    return true;
  }
}
