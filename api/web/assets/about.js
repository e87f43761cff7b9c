// The agent itself: version, store, disk, memory, unit, settings and where each came from.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { bytes, duration } from './format.js';
import { dotted, when } from './parts.js';

const facts = signal(null);
const cluster = signal(null);
const search = signal('');
let asked = 0;

function load() {
  if (Date.now() - asked < 4000) return;
  asked = Date.now();
  agent.get('/v1/agent').then(facts.set, (e) => agent.toast(e.message, 'bad'));
  agent.get('/v1/cluster').then(cluster.set, () => cluster.set(null)); // an error of the agent is shown already
  setTimeout(() => { if (location.hash.startsWith('#/agent')) load(); }, 5000);
}

const row = (name, value) =>
  (value === undefined || value === '' || value === null ? null : [h('dt', null, name), h('dd', null, value)]);

/** What memory is used for, of how much. */
function recordMemory(m) {
  const uses = [
    ['sources', m.by.sources], ['inspectors', m.by.inspectors], ['spools', m.by.spools], ['clients', m.by.clients],
    ['dead letters', m.by.deadLetters],
  ];
  const by = uses.filter(([, n]) => n > 0).map(([use, n]) => `${use} ${bytes(n)}`).join(', ');
  const waiting = m.waiting ? `, ${m.waiting} sources wait` : '';
  return `${bytes(m.used)} of ${bytes(m.bytes)}${by ? ` (${by})` : ''}${waiting}`;
}

const shownPipelines = 200;

/** Who runs what since when, and why. */
function claims(all) {
  const columns = ['Pipeline', 'Member', 'Mode', 'Since', 'Why', 'Lag', 'Dead letters'];
  const found = all.filter((p) => p.id.includes(search()) || (p.member || '').includes(search()));
  const cells = (p) => [
    p.member || '–', p.terms?.mode || '–', p.since ? when(p.since) : '–',
    [p.reason, p.from && 'from ' + p.from].filter(Boolean).join(' ') || '–',
    p.lagSeconds ? p.lagSeconds.toFixed(3) + (p.held ? ' s, held' : ' s') : '–',
    [p.sharedDeadLetters, ...(p.deadLetters || []).map((m) => `${m.member}=${m.count}`)].filter(Boolean).join(', ')
      || '–',
  ];
  return [h('div', { class: 'scroll', tabindex: 0 },
    h('table', { class: 'params', id: 'claims' },
      h('thead', null, h('tr', null, columns.map((t) => h('th', { key: t, scope: 'col' }, t)))),
      h('tbody', null,
        found.slice(0, shownPipelines).map((p) => h('tr', { key: p.id + '/' + (p.instance || '') },
          h('th', { scope: 'row' },
            h('a', { href: '#/pipelines/' + encodeURIComponent(p.id) }, p.id),
            p.instance ? ` (${p.instance}${p.terms?.instances ? ' of ' + p.terms.instances : ''})` : ''),
          cells(p).map((v, i) => h('td', { key: i }, v))))))),
    found.length > shownPipelines
      ? h('p', { class: 'quiet' }, `${found.length - shownPipelines} more; search for a pipeline or a member below.`)
      : null];
}

/** The members of the cluster, nothing for an agent that is alone. */
function members() {
  const c = cluster();
  if (!c || c.state === 'alone') return null;
  const act = (what, path) => h('button', {
    onclick: () => agent.attempt(what, () => agent.post(path)).then(() => { asked = 0; load(); }),
  }, c.state === 'joined' ? 'Drain' : 'Resume');
  const columns = [
    'Member', 'State', 'Pipelines', 'Capacity', 'Labels', 'Version', 'Started', 'Silent for', 'Address',
    'Dead letters',
  ];
  return h('section', { class: 'card', id: 'cluster' },
    h('div', { class: 'title' },
      h('h2', null, 'Cluster ' + c.name),
      h('span', { class: 'grow' }),
      agent.mayWrite() && c.state === 'joined' ? act('the pipelines run on other members', '/v1/cluster/drain') : null,
      agent.mayWrite() && (c.state === 'drained' || c.state === 'draining')
        ? act('this member accepts pipelines again', '/v1/cluster/resume')
        : null),
    h('p', { class: 'quiet' }, `This agent is ${c.member}, ${c.state}${c.message ? ': ' + c.message : ''}.`),
    h('div', { class: 'scroll', tabindex: 0 },
      h('table', { class: 'params' },
        h('thead', null, h('tr', null, columns.map((t) => h('th', { key: t, scope: 'col' }, t)))),
        h('tbody', null,
          c.members.map((m) => h('tr', { key: m.name },
            h('th', { scope: 'row' }, m.name),
            [
              m.state, m.pipelines, m.capacity,
              Object.entries(m.labels || {}).map(([k, v]) => `${k}=${v}`).join(', ') || '–', m.version || '–',
              when(m.startedAt), duration(m.silentSeconds), m.address || '–', m.deadLetters || 0,
            ].map((v, i) => h('td', { key: i }, v))))))),
    claims(c.pipelines));
}

export function about() {
  load();
  const a = facts();
  if (!a) return h('p', { class: 'quiet' }, 'Loading…');
  const found = (a.settings || []).filter((s) => s.name.includes(search()));
  return h('div', { class: 'stack' },
    h('h1', null, 'Agent'),
    h('div', { class: 'columns' },
      h('section', { class: 'card' },
        h('h2', null, 'Process'),
        h('dl', { class: 'facts' },
          row('Version', a.version),
          row('Platform', `${a.os}/${a.arch}`),
          row('Started', [when(a.startedAt), ` (${duration((Date.now() - Date.parse(a.startedAt)) / 1000)})`]),
          row('Process', a.pid), row('Host', a.host), row('Unit', a.unit), row('Address', a.address),
          row('Memory in use', bytes(a.memory.resident)),
          row('Memory limit', a.memory.limit ? bytes(a.memory.limit) : 'none'),
          row('Records in memory', recordMemory(a.memory.records)),
          row('Goroutines', a.goroutines))),
      h('section', { class: 'card' },
        h('h2', null, 'Store'),
        h('dl', { class: 'facts' },
          row('File', h('code', { class: 'wrap' }, a.store.path)),
          row('Size', bytes(a.store.bytes)),
          row('Write-ahead log', bytes(a.store.walBytes)),
          row('Disk free',
            a.store.diskFree !== undefined ? `${bytes(a.store.diskFree)} of ${bytes(a.store.diskTotal)}` : undefined),
          row('File system', a.store.fileSystem),
          row('Problem', a.store.problem && h('span', { class: 'bad', role: 'alert' }, a.store.problem)))),
      a.deadLetters && (a.deadLetters.bytes || a.deadLetters.problem)
        ? h('section', { class: 'card' },
          h('h2', null, 'Dead letters'),
          h('dl', { class: 'facts' },
            row('File', h('code', { class: 'wrap' }, a.deadLetters.path)),
            row('Size', bytes(a.deadLetters.bytes)),
            row('Write-ahead log', bytes(a.deadLetters.walBytes)),
            row('Problem', a.deadLetters.problem && h('span', { class: 'bad', role: 'alert' }, a.deadLetters.problem))))
        : null),
    members(),
    a.settings?.some((s) => s.name === 'api.mcp' && s.value !== 'off')
      ? h('section', { class: 'card' },
        h('h2', null, 'Tools for language models'),
        h('p', null, 'The full binary serves them over MCP at ',
          h('code', null, location.origin + '/mcp'),
          ', or with the command ', h('code', null, 'conduit mcp'), '. ',
          h('a', { href: '/docs/mcp.html' }, 'How to connect')))
      : null,
    h('section', { class: 'card' },
      h('div', { class: 'title' },
        h('h2', null, 'Settings in effect'),
        h('span', { class: 'grow' }),
        h('input', {
          type: 'search', id: 'search', 'aria-label': 'Search settings', placeholder: 'Search ( / )', value: search(),
          oninput: (e) => search.set(e.target.value),
        })),
      h('div', { class: 'scroll', tabindex: 0 },
        h('table', { class: 'params settings' },
          h('thead', null,
            h('tr', null, ['Setting', 'Value', 'From'].map((t) => h('th', { key: t, scope: 'col' }, t)))),
          h('tbody', null,
            found.map((s) => h('tr', { key: s.name },
              h('th', { scope: 'row', class: 'mono' }, dotted(s.name)),
              h('td', { class: 'mono wrap' }, s.value || '–'),
              h('td', { class: s.origin === 'default' ? 'quiet' : '' }, s.origin))))))));
}
