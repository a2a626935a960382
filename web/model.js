// The layers of the run's model, as the run has drawn them: docs/run-folder.md, "picture" of graph.json.
import { h } from './dom.js';
import { focusedRun } from './store.js';

/** An image cannot run anything, whoever has made the run; the theme is the page's, not the system's. */
function picture(text, theme) {
  const themed = text.replace('(prefers-color-scheme: dark)', theme === 'dark' ? 'all' : 'not all');
  return h('img', { alt: 'the layers of the model, with shapes and numbers of parameters',
    src: `data:image/svg+xml;charset=utf-8,${encodeURIComponent(themed)}` });
}

export class Model {
  constructor() {
    this.box = h('div', { class: 'drawing', tabindex: '0', 'aria-label': 'layers of the model' });
    this.element = h('div', { class: 'card' }, this.box);
  }

  draw(theme) {
    const run = focusedRun(), text = run && run.graph && run.graph.picture;
    if (typeof text !== 'string') return false;
    const key = `${run.id} ${run.revision} ${theme}`;
    if (key === this.drawn) return true;
    this.drawn = key;
    this.box.replaceChildren(picture(text, theme));
    return true;
  }
}
