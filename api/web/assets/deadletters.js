// Dead letters of a pipeline: a list with filters, one with its record and errors, and what can be done with them.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { bytes, count, plural } from './format.js';
import { action, ask, empty, when } from './parts.js';

const blank = { error: '', key: '', stage: '', since: '', until: '' };
const stages = ['source-processor', 'pipeline-processor', 'destination-processor', 'destination'];

const filter = signal(blank); // that is shown
const draft = signal(blank); // that is being written
const page = signal(null); // {list, next, totals}
const marked = signal(new Set()); // ids
const open = signal(null); // the one that is shown in full
const edited = signal(null); // its record as text while it is edited
const replay = signal(null);
const from = signal(''); // where a replay begins
let of = '', asked = 0;

const path = (more = '') => agent.pipelinePath(of) + '/dead-letters' + more;

/** What of a filter is filled in, with times as the API takes them. */
const given = (f) => Object.fromEntries(Object.entries(f).filter(([, v]) => v).map(([k, v]) =>
  [k, k === 'since' || k === 'until' ? new Date(v).toISOString() : v]));
const query = (f, more = {}) => '?' + new URLSearchParams({ ...more, ...given(f) });

const perPage = 50;

/** Loads the first page, or the next one behind what is shown. What is rare takes several answers. */
async function load(more = false) {
  const sequence = ++asked, id = of;
  let list = more ? page.peek().list : [], before = more ? page.peek().next : 0, got = null;
  const wanted = list.length + perPage;
  do {
    got = await agent.attempt('', () => agent.get(path(query(filter.peek(), {
      limit: wanted - list.length, before, records: true,
    }))));
    if (!got || sequence !== asked || id !== of) return;
    list = list.concat(got.deadLetters);
    before = got.next;
    if (got.replay && !replay.peek()?.running) follow(got.replay);
    page.set({
      list, next: before, totals: got.totals, elsewhere: got.elsewhere, searching: before && list.length < wanted,
    });
  } while (before && list.length < wanted);
}

/** Loads one with its record as text, whose numbers stay as they are. */
async function show(id) {
  edited.set(null);
  const l = await agent.attempt('', async () => {
    const l = await agent.get(path('/' + id), { revive: agent.exact });
    return {
      ...l, text: JSON.stringify(l.record, null, 2), asRead: l.original ? JSON.stringify(l.original, null, 2) : '',
    };
  });
  open.set(l || null);
}

async function save() {
  const l = open.peek();
  const done = await agent.attempt('the record was changed', () =>
    agent.call('PUT', path('/' + l.id), `{"record":${edited.peek()}}`, { type: 'application/json' }));
  if (done) { await show(l.id); load(); }
}

async function drop(title, target) {
  if (!await ask({ title, text: 'This cannot be undone.', yes: 'Drop', danger: true })) return;
  const done = await agent.attempt('', () => agent.call('DELETE', target));
  if (done) {
    agent.toast(plural(done.dropped, 'dead letter') + ' dropped');
    open.set(null);
    marked.set(new Set());
    load();
  }
}

const running = 500;

const replayPath = () => agent.pipelinePath(of) + '/dead-letter-replay';

/** Begins a replay and follows it to its end. */
async function begin(request) {
  await follow(await agent.attempt('', () =>
    agent.post(replayPath(), from.peek() ? { ...request, from: from.peek() } : request)));
}

/** Follows a replay to its end. In a cluster another member may run it. */
async function follow(r) {
  const at = replayPath(), id = of;
  while (r && id === of) {
    replay.set(r);
    if (!r.running) break;
    await new Promise((done) => setTimeout(done, running));
    r = await agent.attempt('', () => agent.get(at));
  }
  if (id !== of) return;
  if (!r) replay.set(null);
  open.set(null); marked.set(new Set());
  load();
}

const filtered = () => Object.values(filter()).some(Boolean);
const request = () => {
  if (marked.peek().size) return { ids: [...marked.peek()] };
  return filtered() ? { filter: given(filter.peek()) } : { all: true };
};
const target = () =>
  (marked.peek().size
    ? path('?ids=' + [...marked.peek()].join())
    : path(filtered() ? query(filter.peek()) : '?all=true'));
const which = () =>
  (marked().size ? plural(marked().size, 'selected one', 'selected ones') : filtered() ? 'those found' : 'all');

/** The card of the tab of a pipeline. */
export function deadLetters(s) {
  const p = of === s.id ? page() : null;
  const arrive = (el) => {
    if (el && of !== s.id) {
      of = s.id;
      for (const one of [page, open, edited, replay]) one.set(null);
      filter.set(blank);
      draft.set(blank);
      marked.set(new Set());
    }
    if (el) load();
  };
  return h('section', { class: 'stack', 'aria-label': 'Dead letters', ref: arrive },
    h('div', { class: 'title' },
      h('h2', null, 'Dead letters'),
      h('span', { class: 'quiet', role: 'status' }, p ? totals(p.totals) : ''),
      h('span', { class: 'grow' }),
      h('button', { onclick: () => load() }, 'Refresh'),
      p?.totals.count && agent.mayWrite()
        ? h('label', null, 'Replay from',
          h('select', { name: 'from', onchange: (e) => from.set(e.target.value) },
            [['', 'where it was refused'], ['first', 'the first processor']].map(([v, text]) =>
              h('option', { key: v, value: v, selected: from() === v }, text))))
        : null,
      p?.totals.count
        ? [
          action(`Replay ${which()}`, 'replay', () => begin(request()), { kind: 'primary' }),
          action(`Drop ${which()}`, 'drop-dead-letters', () => drop(`Drop ${which()}?`, target()), { kind: 'danger' }),
        ]
        : null),
    p?.elsewhere?.length
      ? h('p', { class: 'problem warn', id: 'elsewhere' },
        'Other members of the cluster have dead letters on their disks. List and replay them there: ',
        p.elsewhere.map((m) => `${m.member}${m.address ? ' at ' + m.address : ''} has ${m.count}`).join(', '))
      : null,
    progress(), search(), list(p), one());
}

function totals(t) {
  const dropped = t.dropped ? `; ${count(t.dropped)} were dropped, see dead-letters.max-count` : '';
  return `${plural(t.count, 'dead letter')}, ${bytes(t.bytes)}${dropped}`;
}

function progress() {
  const r = replay();
  if (!r) return null;
  const going = (r.cancelled ? 'Ending the replay' : 'Replaying') + (r.member ? ' on ' + r.member : '');
  const skipped = r.skipped ? `, ${r.skipped} left to their source` : '';
  return h('div', { class: 'problem ' + (r.error ? 'bad' : r.refused ? 'warn' : 'good'), role: 'status', id: 'replay' },
    r.running
      ? `${going}: ${r.settled} settled, ${r.refused} refused again…`
      : `Replayed ${r.read}: ${r.settled} settled, ${r.refused} refused again${skipped}.`,
    r.error ? h('pre', { class: 'wrap' }, r.error) : null,
    r.message ? h('p', null, r.message) : null,
    r.running && !r.cancelled
      ? action('Cancel', 'cancel-replay', () => agent.attempt('', () => agent.call('DELETE', replayPath())))
      : null);
}

function search() {
  const field = (name, label, type = 'search') => h('label', { key: name },
    label,
    h('input', {
      type, name, value: draft()[name], oninput: (e) => draft.update((f) => ({ ...f, [name]: e.target.value })),
    }));
  return h('form', {
    class: 'search', onsubmit: (e) => { e.preventDefault(); filter.set(draft.peek()); marked.set(new Set()); load(); },
  },
    field('error', 'Error'), field('key', 'Key'),
    h('label', null, 'Stage',
      h('select', { name: 'stage', onchange: (e) => draft.update((f) => ({ ...f, stage: e.target.value })) },
        ['', ...stages].map((v) => h('option', { key: v, value: v, selected: draft().stage === v }, v || 'any')))),
    field('since', 'Since', 'datetime-local'),
    field('until', 'Until', 'datetime-local'),
    h('button', null, 'Find'));
}

function mark(id) {
  marked.update((all) => { const now = new Set(all); if (!now.delete(id)) now.add(id); return now; });
}

function list(p) {
  if (!p) return h('p', { class: 'quiet' }, 'Loading…');
  if (!p.list.length)
    return p.searching
      ? h('p', { class: 'quiet' }, 'Searching…')
      : empty(filtered() ? 'No such dead letters' : 'No dead letters', null);
  return h('div', { class: 'scroll card', tabindex: 0 },
    h('table', { class: 'log' },
      h('caption', { class: 'hidden' }, 'Dead letters'),
      h('thead', null,
        h('tr', null,
          [agent.mayWrite() && 'Select', 'Number', 'When', 'Refused by', 'Key', 'Error', 'Record']
            .filter(Boolean)
            .map((t) => h('th', { key: t, scope: 'col' }, t)))),
      h('tbody', null,
        p.list.map((l) => h('tr', { key: l.id },
          agent.mayWrite()
            ? h('td', null,
              h('input', {
                type: 'checkbox', 'aria-label': `Select ${l.id}`, checked: marked().has(l.id),
                onchange: () => mark(l.id),
              }))
            : null,
          h('th', { scope: 'row' },
            h('button', {
              class: 'plain', 'aria-expanded': String(open()?.id === l.id),
              onclick: () => (open.peek()?.id === l.id ? open.set(null) : show(l.id)),
            }, String(l.id))),
          h('td', { class: 'quiet nowrap' }, when(l.lastTime)),
          h('td', { class: 'mono' }, l.refusedBy),
          h('td', { class: 'mono' }, l.key),
          h('td', null, h('span', { class: 'clamp' }, l.error)),
          h('td', { class: 'mono' }, h('span', { class: 'clamp' }, l.excerpt || bytes(l.bytes)))))),
    ),
    p.next ? h('button', { onclick: () => load(true) }, p.searching ? 'Searching…' : 'More') : null);
}

/** Raw data of a record as text. */
function readable(record) {
  return Object.entries({ key: record.key, before: record.payload?.before, after: record.payload?.after })
    .map(([name, v]) => [name, typeof v === 'string' && !v.startsWith('base64:') ? v : null]).filter(([, v]) => v);
}

const fact = (name, value) => [h('dt', null, name), h('dd', null, value)];

function one() {
  const l = open();
  if (!l) return null;
  return h('article', { class: 'card', 'aria-label': `Dead letter ${l.id}`, key: l.id },
    h('div', { class: 'title' },
      h('h3', null, `Dead letter ${l.id}`),
      l.edited ? h('span', { class: 'badge' }, 'edited') : null,
      h('span', { class: 'grow' }),
      edited() !== null ? null : [
        action('Replay', 'replay-one', () => begin({ ids: [l.id] }), { kind: 'primary', disabled: l.stopped }),
        action('Edit', 'edit-one', async () => edited.set(l.text), { disabled: !agent.keepsDigits }),
        action('Drop', 'drop-one', () => drop(`Drop dead letter ${l.id}?`, path('/' + l.id)), { kind: 'danger' })]),
    l.stopped
      ? h('p', { class: 'problem warn' },
        'This record stopped the pipeline. Its source delivers it again when the pipeline runs, so it is not replayed.')
      : null,
    h('dl', { class: 'facts' },
      fact('Refused by', h('code', null, l.refusedBy)),
      fact('Stage', l.stage),
      fact('Source', h('code', null, l.sourceId)),
      fact('Times', l.times),
      l.refusals.map((r) => fact([when(r.time), `, generation ${r.generation}${r.replay ? ', replayed' : ''}`],
        h('pre', { class: 'wrap' }, r.error))),
      readable(l.record).map(([name, text]) => fact(name, h('pre', { class: 'wrap' }, text)))),
    l.asRead
      ? h('details', null,
        h('summary', null, 'As it was read'),
        h('pre', { class: 'wrap', tabindex: 0, 'aria-label': 'Record as it was read' }, l.asRead))
      : null,
    edited() === null
      ? h('pre', { class: 'wrap record-json', tabindex: 0, 'aria-label': 'Record' }, l.text)
      : editor());
}

function editor() {
  let wrong = '';
  try { JSON.parse(edited()); } catch (e) { wrong = e.message; }
  return h('form', { class: 'stack', onsubmit: (e) => { e.preventDefault(); save(); } },
    h('label', { for: 'dead-letter-record' }, 'Record; raw data is text, or base64 with the prefix base64:'),
    h('textarea', {
      id: 'dead-letter-record', class: 'lines', rows: 16, spellcheck: 'false', value: edited(),
      oninput: (e) => edited.set(e.target.value),
    }),
    wrong ? h('p', { class: 'problem bad', role: 'alert' }, wrong) : null,
    h('div', { class: 'actions' },
      h('button', { type: 'button', onclick: () => edited.set(null) }, 'Cancel'),
      h('button', { class: 'primary', disabled: !!wrong }, 'Save')));
}
