// What each task of one run used through time.
import { bytes, h, keyOf, number, swatch } from './dom.js';
import { ChartGrid } from './chart.js';
import { byName, COLOURS, column, focusedRun } from './store.js';
import { taskTable } from './tables.js';

const rate = x => `${bytes(x)}/s`, share = x => `${number(x, 3)} %`;
const CHARTS = [
  ['CPU', 'task', 'cpu_percent', '100 %: one processor', share],
  ['Memory', 'task', 'rss_bytes', '', bytes],
  ['Network sent', 'task', 'net_sent_bytes_per_second', '', rate],
  ['Network received', 'task', 'net_received_bytes_per_second', '', rate],
  ['Disk read', 'task', 'disk_read_bytes_per_second', '', rate],
  ['Disk written', 'task', 'disk_written_bytes_per_second', '', rate],
  ['Host: CPU', 'host', 'cpu_user_percent', 'in programs, of all processors', share],
  ['Host: memory', 'host', 'memory_used_bytes', '', bytes],
];

const nameOf = track => track.kind === 'host' ? `host ${track.task || ''}`.trim() : track.task || track.kind;

/** A colour for each task and host, the same in all charts: Map of name to custom property. */
function coloursOf(tracks) {
  const of = kind => [...new Set(tracks.filter(t => t.kind === kind).map(nameOf))].sort(byName), names = [...of('task'), ...of('host')];
  return new Map(names.map((name, i) => [name, `--c${i % COLOURS}`]));
}

export class Resources {
  constructor() {
    this.grid = new ChartGrid('grid small');
    this.table = h('div', {});
    this.key = h('div', { class: 'key' });
    this.element = h('div', {}, this.table, this.key, this.grid.element);
    this.zoom = null;
  }

  draw(theme) {
    const run = focusedRun();
    const table = taskTable(run);
    this.table.replaceChildren(...(table ? [table] : []));
    this.table.style.marginBottom = table ? '14px' : '0';
    if (this.run !== (run && run.id)) this.zoom = null;
    this.run = run && run.id;
    const tracks = (run && run.tracks) || [];
    // All tasks on one clock, that begins with the first sample.
    const begin = Math.min(...tracks.map(t => t.columns.time && t.columns.time[0]).filter(t => t > 0));
    const colours = coloursOf(tracks);
    const wanted = CHARTS.map(([title, kind, name, unit, format]) => ({
      options: { title, unit, format, tick: format, from: 0, group: 'resources', xLabel: () => 'seconds', zoomed: () => this.zoom,
        zoom: z => {
          this.zoom = z;
          this.grid.rescale();
        } },
      curves: tracks.filter(t => t.kind === kind && column(t, name) && t.columns.time).map(t => {
        const y = column(t, name);
        return { name: nameOf(t), colour: colours.get(nameOf(t)), x: t.columns.time.map(s => s - begin), mean: y.mean, least: y.least,
          most: y.most };
      }).filter(c => c.mean.some(v => v > 0)),
    }));
    this.key.replaceChildren(keyOf([...colours].map(([name, c]) => [swatch(c), name])));
    this.grid.draw(wanted, { theme, smoothing: 0, logarithmic: false });
    return !!table || wanted.some(w => w.curves.length);
  }
}
