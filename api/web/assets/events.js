// What happened, the newest first.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { empty, when } from './parts.js';

const search = signal('');
const warnings = signal(false);

export function events() {
  const words = search().toLowerCase();
  const list = agent.events()
    .filter((e) =>
      (!warnings() || e.type === 'warning') && `${e.pipeline} ${e.file} ${e.reason} ${e.message}`
        .toLowerCase()
        .includes(words))
    .slice(-300)
    .reverse();
  return h('div', { class: 'stack' },
    h('div', { class: 'title' },
      h('h1', null, 'Events'), h('span', { class: 'grow' }),
      h('label', null,
        h('input', { type: 'checkbox', checked: warnings(), onchange: (e) => warnings.set(e.target.checked) }),
        ' warnings only'),
      h('input', {
        type: 'search', id: 'search', 'aria-label': 'Search events', placeholder: 'Search ( / )', value: search(),
        oninput: (e) => search.set(e.target.value),
      })),
    list.length
      ? h('div', { class: 'scroll card', tabindex: 0 },
        h('table', { class: 'log' },
          h('caption', { class: 'hidden' }, 'Events'),
          h('thead', null,
            h('tr', null, ['When', 'What', 'Of', 'Message'].map((t) => h('th', { key: t, scope: 'col' }, t)))),
          h('tbody', null,
            list.map((e) => h('tr', { key: e.id, class: e.type },
              h('td', { class: 'quiet nowrap' }, when(e.at)),
              h('th', { scope: 'row' }, e.reason),
              h('td', { class: 'mono' },
                e.pipeline
                  ? h('a', { href: '#/pipelines/' + encodeURIComponent(e.pipeline) }, e.pipeline)
                  : e.file || ''),
              h('td', { class: 'prose' }, e.message))))))
      : empty('No such events'));
}
