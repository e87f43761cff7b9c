// The plugins there are: what they take, an example to copy.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { copyButton, dotted, empty } from './parts.js';

const all = signal(null);
const search = signal('');
let loaded = 0;

function load() {
  if (Date.now() - loaded < 5000) return;
  loaded = Date.now();
  Promise.all([agent.get('/v1/connectors/plugins'), agent.get('/v1/processors/plugins')]).then(([c, p]) =>
    all.set([
      ...c.map((x) => ({
        ...x,
        kinds: [['source', x.sourceParams], ['destination', x.destinationParams]].filter(([, params]) =>
          Object.keys(params).length),
      })),
      ...p.map((x) => ({ ...x, kinds: [['processor', x.parameters]] }))]),
    (e) => agent.toast(e.message, 'bad'));
}

const short = (name) => name.replace(/^builtin:/, '').replace(/@.*$/, '');

export function plugins(chosen) {
  load();
  const list = all();
  if (!list) return h('p', { class: 'quiet' }, 'Loading…');
  const found = list.filter((p) => (p.name + ' ' + p.summary).toLowerCase().includes(search().toLowerCase()));
  const at = list.find((p) => p.name === chosen);
  return h('div', { class: 'stack' },
    h('div', { class: 'title' },
      h('h1', null, 'Plugins'), h('span', { class: 'grow' }),
      h('input', {
        type: 'search', id: 'search', 'aria-label': 'Search plugins', placeholder: 'Search ( / )', value: search(),
        oninput: (e) => search.set(e.target.value),
      })),
    h('div', { class: 'columns wide-right' + (at ? ' one' : '') },
      h('ul', { class: 'list card' },
        found.map((p) => h('li', { key: p.name },
          h('a', { href: '#/plugins/' + encodeURIComponent(p.name), 'aria-current': p === at ? 'true' : null },
            h('b', null, short(p.name)), ' ',
            h('small', { class: 'quiet' }, p.version, ' · ', p.kinds.map(([k]) => k).join(', ')),
            h('br'),
            h('span', { class: 'quiet' }, p.summary))))),
      at
        ? one(at)
        : empty('Choose a plugin',
          h('p', null,
            'to see its settings and an example. '
              + 'Executables come from connectors.path, modules from processors.path.'))));
}

function one(p) {
  return h('section', { class: 'card', key: p.name },
    h('a', { class: 'back quiet', href: '#/plugins' }, 'All plugins'),
    h('h2', null, p.name),
    h('p', null, p.description || p.summary),
    p.author ? h('p', { class: 'quiet' }, 'by ', p.author) : null,
    p.kinds.map(([kind, params]) => h('div', { key: kind },
      h('h3', null, kind === 'processor' ? 'Settings' : `As a ${kind}`),
      h('div', { class: 'example' },
        h('pre', { tabindex: 0 }, example(p, kind, params)),
        copyButton(() => example(p, kind, params))),
      h('div', { class: 'scroll', tabindex: 0 },
        h('table', { class: 'params' },
          h('thead', null,
            h('tr', null,
              ['Setting', 'Type', 'Default', 'Description'].map((t) => h('th', { key: t, scope: 'col' }, t)))),
          h('tbody', null,
            Object.keys(params).sort(byNeed(params)).map((name) => h('tr', { key: name },
              h('th', { scope: 'row', class: 'mono' },
                dotted(name),
                need(params[name]) ? h('span', { class: 'badge' }, 'required') : null),
              h('td', null, params[name].type.slice(5).toLowerCase()),
              h('td', { class: 'mono' }, params[name].default),
              h('td', null, params[name].description, rules(params[name]))))))))));
}

const need = (p) => p.validations.some((v) => v.type === 'TYPE_REQUIRED');
const byNeed = (params) => (a, b) => need(params[b]) - need(params[a]) || a.localeCompare(b);
const signs = {
  TYPE_GREATER_THAN: 'greater than ', TYPE_LESS_THAN: 'less than ', TYPE_INCLUSION: 'one of ', TYPE_EXCLUSION: 'not ',
  TYPE_REGEX: 'matches ',
};
const rules = (p) => p.validations.filter((v) => signs[v.type]).map((v) =>
  h('small', { class: 'quiet' }, ` (${signs[v.type]}${v.value})`));

function example(p, kind, params) {
  const needed = Object.keys(params).filter((n) => need(params[n]) && !params[n].default && !n.includes('*'));
  const settings = needed.length
    ? ['  settings:', ...needed.map((n) => `    ${n}: ${params[n].type === 'TYPE_INT' ? 1 : '…'}`)]
    : [];
  return kind === 'processor'
    ? [`- id: ${short(p.name).replace(/\./g, '-')}`, `  plugin: ${short(p.name)}`, ...settings].join('\n')
    : [
      `- id: ${kind === 'source' ? 'in' : 'out'}`, `  type: ${kind}`, `  plugin: ${short(p.name)}`, ...settings,
    ].join('\n');
}
