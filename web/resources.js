// What each task of one run used through time.
import { bytes, h, number, short } from './dom.js';
import { ChartGrid } from './chart.js';
import { COLOURS, column, focusedRun } from './store.js';
import { taskTable } from './tables.js';

const rate = x => `${bytes(x)}/s`;
const CHARTS = [
  ['CPU', 'task', 'cpu_percent', '100 %: one processor', x => `${number(x, 3)} %`, short],
  ['Memory', 'task', 'rss_bytes', '', bytes, bytes],
  ['Network sent', 'task', 'net_sent_bytes_per_second', '', rate, bytes],
  ['Network received', 'task', 'net_received_bytes_per_second', '', rate, bytes],
  ['Disk read', 'task', 'disk_read_bytes_per_second', '', rate, bytes],
  ['Disk written', 'task', 'disk_written_bytes_per_second', '', rate, bytes],
  ['Host: CPU', 'host', 'cpu_user_percent', 'in programs, of all', x => `${number(x, 3)} %`, short],
  ['Host: memory', 'host', 'memory_used_bytes', '', bytes, bytes],
];

export class Resources {
  constructor() {
    this.grid = new ChartGrid('grid small');
    this.table = h('div', {});
    this.element = h('div', {}, this.table, this.grid.element);
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
    const wanted = CHARTS.map(([title, kind, name, unit, format, tick]) => ({
      options: { title, unit, format, tick, from: 0, group: 'resources', xLabel: () => 'seconds', zoomed: () => this.zoom,
        zoom: z => {
          this.zoom = z;
          this.grid.rescale();
        } },
      curves: tracks.filter(t => t.kind === kind && column(t, name) && t.columns.time).map((t, i) => {
        const y = column(t, name);
        return { name: t.task || kind, colour: `--c${i % COLOURS}`, x: t.columns.time.map(s => s - begin), mean: y.mean, least: y.least,
          most: y.most };
      }).filter(c => c.mean.some(v => v > 0)),
    }));
    this.grid.draw(wanted, { theme, smoothing: 0, logarithmic: false });
    return !!table || wanted.some(w => w.curves.length);
  }
}
