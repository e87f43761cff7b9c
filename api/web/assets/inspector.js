// The stream inspector: records as they pass a stage of a pipeline.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { asText, count, fromBase64, hex, nanos, plural, readableRecord } from './format.js';
import { copyButton, empty, when } from './parts.js';

const kept = 10;

const stage = signal('');
const tab = signal('stream');
const paused = signal(false);
const records = signal([]);
const dropped = signal(0);
const state = signal({ on: false, text: '' });
const filter = signal('');
const sought = signal('');
const rawAs = signal('text');
let close = null, opened = '', serial = 0, again = 0;

/** Follows the records at path until stop. */
function follow(path) {
  const key = path + '?' + sought.peek();
  if (opened === key) return;
  stop();
  opened = key;
  records.set([]); dropped.set(0); again = 0;
  connect(key);
}

function connect(key) {
  const [path] = key.split('?'), query = new URLSearchParams(sought.peek() ? { filter: sought.peek() } : {});
  query.set('rate', '30');
  state.set({ on: false, text: 'connecting…' });
  close = agent.inspect(`${path}?${query}`, {
    message(m) {
      if (!state.peek().on) state.set({ on: true, text: 'live' });
      again = 0;
      if (m.dropped) dropped.update((n) => n + m.dropped);
      if (m.result)
        records.update((all) =>
          [{ id: ++serial, at: new Date().toISOString(), ...m.result, was: m.before }, ...all].slice(0, kept));
    },
    closed(e) {
      if (opened !== key) return;
      state.set({ on: false, text: e.reason || 'the stream ended, trying again…' });
      if (e.code === 4404 || e.code === 1008) return;
      setTimeout(() => { if (opened === key && !paused.peek()) connect(key); }, Math.min(10000, 500 * 2 ** again++));
    },
  });
}

export function stop() {
  close?.();
  close = null;
  opened = '';
}

/** Closes the stream and keeps what is shown. */
export function togglePause() {
  if (paused.peek()) {
    paused.set(false);
    const key = opened;
    if (key) connect(key);
  } else {
    paused.set(true);
    close?.();
    close = null;
    state.set({ on: false, text: 'paused' });
  }
}

/** Stages are [{label, path, group}], in the order of the records' way. */
export function inspector(stages, running) {
  if (!stages.length) return empty('Nothing to inspect', h('p', null, 'The pipeline has no connectors.'));
  const at = stages.find((s) => s.path === stage()) || stages[0];
  if (!paused()) queueMicrotask(() => follow(at.path));
  const choose = (e) => { paused.set(false); stage.set(e.target.value); };
  return h('div', { class: 'inspector', ref: (el) => { if (!el) { stop(); paused.set(false); } } },
    h('div', { class: 'bar' },
      h('label', null, 'Stage ',
        h('select', { onchange: choose, value: at.path, 'aria-label': 'Stage' },
          stages.map((s) => h('option', { value: s.path, key: s.path, selected: s.path === at.path }, s.label)))),
      h('div', { class: 'segments', role: 'tablist', 'aria-label': 'View' },
        [['stream', 'Stream'], ['single', 'Single record']].map(([key, label]) =>
          h('button', {
            key, role: 'tab', id: 'tab-' + key, 'aria-selected': String(tab() === key), 'aria-controls': 'records',
            onclick: () => tab.set(key),
          }, label))),
      h('button', { class: 'primary', id: 'pause', onclick: togglePause }, paused() ? 'Resume' : 'Pause'),
      h('form', { class: 'inline', onsubmit: (e) => { e.preventDefault(); paused.set(false); sought.set(filter()); } },
        h('input', {
          placeholder: 'operation=create or metadata.KEY=VALUE', 'aria-label': 'Filter', value: filter(),
          oninput: (e) => filter.set(e.target.value), class: 'wide',
        }),
        h('button', null, 'Filter')),
      h('label', null, 'Raw data as ',
        h('select', { 'aria-label': 'Raw data as', onchange: (e) => rawAs.set(e.target.value) },
          ['text', 'json', 'hex'].map((v) => h('option', { value: v, key: v, selected: rawAs() === v }, v)))),
      h('span', { class: 'link ' + (state().on ? 'live' : paused() ? '' : 'connecting'), role: 'status' },
        state().text),
      dropped()
        ? h('span', { class: 'quiet', title: 'A session shows at most 30 records a second.' },
          `${count(dropped())} not shown`)
        : null),
    h(shown, { running }));
}

function shown({ running }) {
  const list = tab() === 'single' ? records().slice(0, 1) : records();
  return h('div', { id: 'records', role: 'tabpanel', 'aria-labelledby': 'tab-' + tab(), class: 'records' },
    articles(list, running));
}

function articles(list, running) {
  if (!list.length)
    return empty('Waiting for data…',
      h('p', null, running ? 'No records since this page was opened.' : 'The pipeline does not run.'));
  return list.map((r) => h('article', { class: 'record card', key: r.id }, recordHead(r), recordBody(r)));
}

function recordHead(r) {
  const position = fromBase64(r.position), text = asText(position);
  return h('header', null,
    h('span', { class: 'badge op-' + r.operation.slice(10).toLowerCase() }, r.operation.slice(10).toLowerCase()),
    when(r.at, { class: 'quiet' }),
    h('code', { class: 'clip quiet', title: 'position ' + (text ?? '') }, text ?? hex(position).slice(8, 56)),
    h('span', { class: 'grow' }),
    copyButton(() => JSON.stringify(readableRecord(r), null, 2)));
}

function recordBody(r) {
  const changed = r.was ? diffPaths(plain(r.was), plain(r)) : null;
  return h('dl', { class: 'tree' },
    part('key', r.key, changed),
    part('before', r.payload.before, changed),
    part('after', r.payload.after, changed),
    metadata(r.metadata, changed));
}

function part(name, data, changed) {
  if (!data || (!data.structuredData && !data.rawData)) return null;
  return [
    h('dt', null, name),
    h('dd', null, data.structuredData ? tree(data.structuredData, name, changed) : raw(data.rawData)),
  ];
}

function raw(base64) {
  const data = fromBase64(base64), text = asText(data);
  if (rawAs() === 'hex' || text === null) return h('pre', { tabindex: 0 }, hex(data));
  if (rawAs() === 'json') { try { return tree(JSON.parse(text, agent.exact), '', null); } catch { /* it is none */ } }
  return h('pre', { tabindex: 0 }, text);
}

function metadata(all, changed) {
  const keys = Object.keys(all).sort();
  return [h('dt', null, 'metadata'),
    h('dd', null,
      h('details', { open: keys.length < 4 },
        h('summary', null, plural(keys.length, 'entry', 'entries')),
        h('ul', { class: 'values' },
          keys.map((k) => h('li', { key: k, class: mark('metadata/' + k, changed) },
            h('span', { class: 'name' }, k), ' ',
            h('span', { class: 'string' }, all[k]),
            nanos(all[k]) && / ?At$/.test(k) ? h('small', { class: 'quiet' }, ' ' + nanos(all[k])) : null)))))];
}

const mark = (path, changed) => (changed?.has(path) ? 'changed' : null);

/** A value with the types of what is in it. */
export function tree(value, path = '', changed = null) {
  if (value === null) return h('span', { class: 'null' }, 'null');
  if (value instanceof agent.Digits) return h('span', { class: 'number', title: 'number' }, String(value));
  if (Array.isArray(value) || typeof value === 'object') {
    const entries = Array.isArray(value) ? value.map((v, i) => [i, v]) : Object.entries(value);
    if (!entries.length) return h('span', { class: 'quiet' }, Array.isArray(value) ? '[ ]' : '{ }');
    return h('ul', { class: 'values' },
      entries.slice(0, 200).map(([k, v]) => h('li', { key: k, class: mark(path + '/' + k, changed) },
        h('span', { class: 'name' }, k), ' ', tree(v, path + '/' + k, changed))),
      entries.length > 200 ? h('li', { class: 'quiet' }, `and ${entries.length - 200} more`) : null);
  }
  return h('span', { class: typeof value, title: typeof value }, typeof value === 'string' ? value : String(value));
}

const plain = (r) => ({
  key: r.key?.structuredData ?? r.key?.rawData, before: r.payload?.before?.structuredData ?? r.payload?.before?.rawData,
  after: r.payload?.after?.structuredData ?? r.payload?.after?.rawData, metadata: r.metadata,
});

/** The paths at which two values differ. */
export function diffPaths(a, b, at = '', out = new Set()) {
  if (a instanceof agent.Digits) a = String(a);
  if (b instanceof agent.Digits) b = String(b);
  if (a && b && typeof a === 'object' && typeof b === 'object') {
    for (const k of new Set([...Object.keys(a), ...Object.keys(b)])) diffPaths(a[k], b[k], at ? at + '/' + k : k, out);
  } else if (a !== b) out.add(at);
  return out;
}

addEventListener('keydown', (e) => {
  if (e.key === ' ' && document.querySelector('.inspector')
    && !e.target.closest?.('input, textarea, select, button, summary, dialog, a')) {
    togglePause();
    e.preventDefault();
  }
});
