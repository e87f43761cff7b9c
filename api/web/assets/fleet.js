// All pipelines: what is broken first, then every one.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import {
  count, bytes, clock, delivers, duration, version, place, severity, condition, plural, isTrue,
} from './format.js';
import { phase, sparkline, problem, empty, long, questionDialog } from './parts.js';

const search = signal('');
const only = signal('all');
const order = signal({ by: 'attention', down: false });
const windowed = 60; // from so many rows on only those in sight are rendered
const narrow = matchMedia('(max-width: 820px)');
const rowHeight = () => (narrow.matches ? 194 : 53); // as the style sheet says
const inSight = () => Math.ceil(innerHeight / rowHeight()) + 9; // and some on either side
const sight = signal({ from: 0, to: inSight() }); // which of many rows are rendered

const filters = {
  all: ['All', () => true],
  attention: ['Need attention', (s) => severity(s) > 0],
  running: ['Running', delivers],
  stopped: ['Stopped', (s) => s.state.phase === 'stopped'],
};

const compare = {
  attention: (a, b) => severity(b) - severity(a),
  id: () => 0,
  status: (a, b) => a.state.phase.localeCompare(b.state.phase),
  owner: (a, b) => byName(place(a.owner), place(b.owner)),
  records: (a, b) => rate(b, 'records') - rate(a, 'records'),
  bytes: (a, b) => rate(b, 'bytes') - rate(a, 'bytes'),
  lag: (a, b) => rate(b, 'lag') - rate(a, 'lag'),
  refused: (a, b) => rate(b, 'refused') - rate(a, 'refused'),
};

const rate = (s, name) => agent.rates.get(s.id)?.[name] ?? -1;
const byName = new Intl.Collator('en', { numeric: true }).compare;

function listed() {
  const words = search().toLowerCase().split(/\s+/).filter(Boolean), { by, down } = order();
  if (by === 'records' || by === 'bytes' || by === 'lag' || by === 'refused') agent.tick();
  const text = (s) => [
    s.id, s.name || '', place(s.owner), s.state.phase, ...Object.entries(s.labels || {}).map((l) => l.join('=')),
  ].join(' ').toLowerCase();
  const found = (s) => filters[only()][1](s) && words.every((w) => text(s).includes(w));
  const all = [...agent.pipelines().values()].filter(found);
  all.sort((a, b) => compare[by](a, b) || byName(a.id, b.id));
  return down ? all.reverse() : all;
}

export function fleet() {
  return h('div', { class: 'fleet' },
    h('div', { class: 'title' }, h('h1', null, 'Pipelines'), h(summary), h('span', { class: 'grow' }),
      agent.mayWrite() ? h('a', { class: 'button', href: '#/new' }, 'New pipeline') : null),
    h(attention), h(everything), questionDialog());
}

function summary() {
  let going = 0;
  for (const s of agent.pipelines().values()) if (delivers(s)) going++;
  const { records, bytes: size } = agent.total();
  return h('p', { class: 'quiet summary' },
    `${going} of ${agent.pipelines().size} running · ${count(records)} records/s · ${bytes(size)}/s`);
}

function everything() {
  const total = agent.pipelines().size;
  if (!total) return agent.link() === 'connecting' ? h('p', { class: 'quiet' }, 'Loading…') : nothing();
  const list = listed();
  return h('div', null, bar(list.length, total), h(table, { list }));
}

function nothing() {
  return empty('No pipelines yet',
    h('p', null, 'Save a file into the directory of pipeline files, and it runs within milliseconds:'),
    h('pre', null, 'conduit pipelines init'), h('p', null, 'or ', h('a', { href: '#/new' }, 'make one here'), '.'));
}

const shownProblems = 8;

function attention() {
  const dir = agent.directory();
  const wrong = agent.files().flatMap((f) => (f.problems || []).filter((p) => p.severity === 'error'));
  const pipelines = [...agent.pipelines().values()]
    .filter((s) => severity(s) > 1 && condition(s, 'Valid')?.status !== 'False')
    .sort((a, b) => severity(b) - severity(a));
  const bad = dir && dir.state !== 'ok' && dir.state !== 'polled';
  if (!wrong.length && !pipelines.length && !bad) return null;
  return h('section', { class: 'attention', 'aria-label': 'Needs attention' },
    h('h2', null, 'Needs attention'),
    bad
      ? h('div', { class: 'problem bad' },
        `The directory of the pipeline files is ${dir.state}: ${dir.message || ''}`,
        dir.state === 'emptied' ? null : ' Pipelines keep running as declared.')
      : null,
    wrong.slice(0, shownProblems).map((p, i) => h('div', { key: 'f' + p.file + p.line + i }, problem(p), after(p))),
    pipelines.slice(0, shownProblems).map((s) => h('div', {
      class: 'problem ' + (severity(s) > 3 ? 'bad' : 'warn'), key: s.id,
    },
      h('div', null,
        phase(s), ' ',
        h('a', { href: '#/pipelines/' + encodeURIComponent(s.id) }, s.id),
        ': ', version(s)),
      long(why(s), { class: 'quiet' }))),
    more(wrong.length + pipelines.length - Math.min(wrong.length, shownProblems)
      - Math.min(pipelines.length, shownProblems)));
}

/** What runs in spite of a problem of its file. */
function after(p) {
  const s = p.pipeline && agent.pipelines().get(p.pipeline);
  if (!s) return null;
  return h('p', { class: 'quiet' },
    h('a', { href: '#/pipelines/' + encodeURIComponent(s.id) }, s.id),
    ' ',
    s.state.phase === 'running' ? 'keeps running: it ' + version(s) + '.' : 'is ' + s.state.phase + '.');
}

const more = (n) => (n > 0 ? h('p', { class: 'quiet' }, `and ${n} more: choose “Need attention” below`) : null);

/** Why a pipeline does not do what it is to: the last error is kept until it delivers again. */
export function why(s) {
  const stall = s.state.stall;
  if (stall) return `since ${clock(stall.since)}: ${s.state.error || stall.message}`;
  return s.state.error || s.state.lastAttempt?.error || s.placement?.failed?.error
    || s.conditions.find((c) =>
      c.status === 'True' && (c.type === 'RolledBack' || c.type === 'Conflict' || c.type === 'PluginChanged'))?.message
    || '';
}

function bar(shown, total) {
  return h('div', { class: 'bar' },
    h('input', {
      type: 'search', id: 'search', placeholder: 'Search ( / )', 'aria-label': 'Search pipelines', value: search(),
      oninput: (e) => search.set(e.target.value), onkeydown: searchKey,
    }),
    h('div', { class: 'segments', role: 'group', 'aria-label': 'Which pipelines' },
      Object.entries(filters).map(([key, [label]]) =>
        h('button', { key, 'aria-pressed': String(only() === key), onclick: () => only.set(key) }, label))),
    h('span', { class: 'quiet', role: 'status' },
      shown === total ? plural(total, 'pipeline') : `${shown} of ${total}`));
}

function searchKey(e) {
  if (e.key === 'ArrowDown' || e.key === 'Enter') { document.querySelector('tbody a')?.focus(); e.preventDefault(); }
  if (e.key === 'Escape') { if (!search.peek()) e.target.blur(); search.set(''); }
}

const columns = [['status', 'Status'], ['id', 'Pipeline'], ['owner', 'Declared in'], [null, 'Version'],
  ['records', 'Records/s', 'num'],
  ['bytes', 'Bytes/s', 'num'], ['lag', 'Ack lag', 'num'], ['refused', 'Refused', 'num'], [null, 'Last error']];

function head() {
  const { by, down } = order();
  return h('thead', { role: 'rowgroup' },
    h('tr', { role: 'row' },
      columns.map(([key, label, kind]) => h('th', {
        key: label, scope: 'col', role: 'columnheader', class: kind || '',
        'aria-sort': key && by === key ? (down ? 'descending' : 'ascending') : null,
      },
        key
          ? h('button', { class: 'plain', onclick: () => order.set({ by: key, down: by === key ? !down : false }) },
            label,
            h('span', { 'aria-hidden': 'true', class: 'arrow' }, by === key ? (down ? '▲' : '▼') : ''))
          : label))));
}

function table({ list }) {
  if (!list.length)
    return empty('No pipeline matches',
      h('button', { onclick: () => { search.set(''); only.set('all'); } }, 'Show all'));
  const many = list.length > windowed, height = rowHeight();
  const to = many ? Math.min(list.length, sight().to) : list.length,
    from = many ? Math.max(0, Math.min(sight().from, to - 1)) : 0;
  return h('div', { class: 'scroll', tabindex: 0 },
    h('table', {
      class: 'rows' + (many ? ' windowed' : ''), role: 'table', 'aria-label': 'Pipelines',
      'aria-rowcount': list.length + 1,
    },
      head(),
      h('tbody', {
        role: 'rowgroup', ref: watchScroll,
        style: { 'padding-top': from * height + 'px', 'padding-bottom': (list.length - to) * height + 'px' },
      },
        list.slice(from, to).map((s, i) => h(row, { key: s.id, s, index: from + i })))));
}

let body = null;
function watchScroll(el) {
  body = el;
  if (el) requestAnimationFrame(measure); // with the layout that comes then anyway, in a task of its own
}
function measure() {
  if (!body) return;
  // Rows come and go by fours.
  const first = Math.max(0, Math.floor(-body.getBoundingClientRect().top / rowHeight() / 4) * 4),
    from = Math.max(0, first - 4), to = first + inSight();
  if (from !== sight.peek().from || to !== sight.peek().to) sight.set({ from, to });
}
addEventListener('scroll', measure, { passive: true });
addEventListener('resize', measure, { passive: true });

function row({ s, index }) {
  const r = agent.rate(s.id),
    cell = (label, props, ...kids) => h('td', { role: 'cell', 'data-label': label, ...props }, kids);
  return h('tr', { class: 'sev' + severity(s), role: 'row', 'aria-rowindex': index + 2 },
    cell('Status', null, phase(s)),
    h('th', { scope: 'row', role: 'rowheader', 'data-label': 'Pipeline' },
      h('a', { href: '#/pipelines/' + encodeURIComponent(s.id), onkeydown: rowKey }, s.id),
      s.name && s.name !== s.id ? h('small', { class: 'quiet clip' }, s.name) : null),
    cell('Declared in', { class: 'mono clip', title: place(s.owner) }, place(s.owner)),
    cell('Version', { class: isTrue(s, 'RolledBack') ? 'warn-text' : 'quiet' }, version(s)),
    cell('Records/s', { class: 'num' },
      h('span', { class: 'with-spark' },
        sparkline(r && agent.points(s.id, 4)),
        h('span', { title: 'read, and accepted by the slowest destination' }, passing(r)))),
    cell('Bytes/s', { class: 'num' }, r ? bytes(r.bytes) : '–'),
    cell('Ack lag', { class: 'num' }, r && r.lag !== undefined ? duration(r.lag) : '–'),
    cell('Refused',
      {
        class: 'num' + (r?.refused ? ' warn-text' : ''),
        title: 'records in the dead-letter queue since the agent started',
      },
      r
        ? (r.refused ? h('a', { href: `#/pipelines/${encodeURIComponent(s.id)}/dead-letters` }, count(r.refused)) : '0')
        : '–'),
    cell('Last error', { class: 'error clip', title: why(s) || null }, why(s)));
}

/** Records per second that are read, and those that are delivered where they are not as many. */
function passing(r) {
  if (!r) return '–';
  return r.delivered < 0.9 * r.records ? `${count(r.records)} in, ${count(r.delivered)} out` : count(r.records);
}

function rowKey(e) {
  const move = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1 }[e.key];
  if (!move) return;
  const links = [...document.querySelectorAll('tbody th a')];
  links[links.indexOf(e.target) + move]?.focus();
  e.preventDefault();
}

addEventListener('keydown', (e) => {
  if (e.target.closest?.('input, textarea, select, dialog') || e.ctrlKey || e.metaKey) return;
  if (e.key === '/') {
    const box = document.getElementById('search');
    if (box) { addEventListener('keyup', () => box.focus(), { once: true }); e.preventDefault(); }
  }
  if ((e.key === 'j' || e.key === 'ArrowDown') && !e.target.closest?.('tbody, pre, main a')) {
    const first = document.querySelector('.fleet tbody th a');
    if (first) { first.focus(); e.preventDefault(); }
  }
});
