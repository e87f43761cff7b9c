// What the agent logged: about everything, or about one pipeline. The lines come by requests that wait for the next
// one. The page keeps the newest, and drops the others.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { plural } from './format.js';
import { copyButton, empty, when } from './parts.js';

const kept = 2000, shown = 500;
const levels = ['debug', 'info', 'warn', 'error'];

const lines = signal([]); // oldest first
const level = signal('info');
const search = signal('');
const following = signal(true);
const failed = signal('');
let open = null; // the request of the view that is on the page

const rank = (l) => Math.max(0, levels.indexOf(l.level.split(/[+-]/)[0]));
const fields = (l) => Object.entries(l.fields || {}).sort().map(([k, v]) => `${k}=${v}`);
const text = (l) => `${l.at} ${l.level} ${l.message} ${fields(l).join(' ')}`;

/** Reads lines until the view has gone. */
async function read(path, self) {
  for (let after = 0, wait = 0; open === self;) {
    try {
      const more = await agent.get(`${path}?limit=1000&after=${after}&wait=${wait}`, { signal: self.signal });
      failed.set('');
      if (more.length) lines.update((all) => [...all, ...more].slice(-kept));
      after = more.at(-1)?.id ?? after;
      wait = 20;
    } catch (e) {
      if (open !== self) return;
      failed.set(e.message);
      after = wait = 0; // ids begin anew with an agent
      await new Promise((done) => setTimeout(done, 2000));
      if (open === self) lines.set([]);
    }
  }
}

function follow(path) {
  return (el) => {
    open?.abort();
    open = null;
    if (!el) return;
    lines.set([]);
    open = new AbortController();
    read(path, open);
  };
}

/** The log of a pipeline, or of the agent without one. */
export function logs(id) {
  const path = id ? agent.pipelinePath(id) + '/logs' : '/v1/logs';
  return h('div', { class: 'stack', key: path, ref: follow(path) },
    h('div', { class: 'title' },
      id ? h('h2', null, 'Log') : h('h1', null, 'Log'),
      h('span', { class: 'grow' }),
      h('label', null, 'From level ',
        h('select', { id: 'level', value: level(), onchange: (e) => level.set(e.target.value) },
          levels.map((l) => h('option', { key: l, value: l, selected: l === level() }, l)))),
      h('input', {
        type: 'search', id: 'search', 'aria-label': 'Search the log', placeholder: 'Search ( / )', value: search(),
        oninput: (e) => search.set(e.target.value),
      }),
      h('button', {
        id: 'pause', 'aria-pressed': String(following()), onclick: () => { following.update((on) => !on); toEnd(); },
      }, following() ? 'Follow: on' : 'Follow: off'),
      copyButton(() => chosen().map(text).join('\n'), 'Copy')),
    failed() ? h('div', { class: 'problem warn', role: 'status' }, failed()) : null,
    h(list, { id }));
}

function chosen() {
  const words = search().toLowerCase().split(/\s+/).filter(Boolean), least = levels.indexOf(level());
  return lines().filter((l) => rank(l) >= least && words.every((w) => text(l).toLowerCase().includes(w)));
}

function list({ id }) {
  const all = chosen(), newest = all.slice(-shown);
  if (!newest.length)
    return empty(lines().length ? 'No such lines' : 'No lines yet',
      h('p', null,
        'The agent keeps the last 200 lines of each pipeline and connector, and of itself, until it stops.'));
  return h('div', null,
    h('p', { class: 'quiet', role: 'status' },
      newest.length < all.length ? `the last ${shown} of ${plural(all.length, 'line')}` : plural(all.length, 'line')),
    h('div', {
      class: 'lines-box card', tabindex: 0, role: 'region', 'aria-label': 'Lines of the log', ref: watch,
      onscroll: scrolled, ...up,
    },
      h('table', { class: 'log' }, h('caption', { class: 'hidden' }, 'Lines of the log'),
        h('thead', null, h('tr', null, ['When', 'Level', 'Message'].map((t) => h('th', { key: t, scope: 'col' }, t)))),
        h('tbody', { ref: grown }, newest.map((l) => h(line, { key: l.id, l, id }))))));
}

/** A line. Of one pipeline its id goes without saying. */
function line({ l, id }) {
  return h('tr', { class: 'level-' + levels[rank(l)] },
    h('td', { class: 'quiet nowrap' }, when(l.at)),
    h('td', { class: 'level' }, l.level),
    h('td', { class: 'prose' },
      l.dropped ? h('div', { class: 'quiet' }, `${plural(l.dropped, 'line')} before it dropped`) : null,
      l.message, ' ',
      Object.entries(l.fields || {})
        .sort()
        .filter(([k]) => !id || (k !== 'pipeline_id' && k !== 'component'))
        .map(([k, v]) =>
          h('span', { key: k, class: k === 'err' ? 'log-field bad-text' : 'log-field quiet' },
            k === 'pipeline_id'
              ? h('a', { href: '#/pipelines/' + encodeURIComponent(v) + '/logs' }, `${k}=${v}`)
              : `${k}=${v}`,
            ' '))));
}

// The box stays at its end while it follows. Who scrolls up reads, and who scrolls back to the end follows again.
// New lines move the end away and the text in the box, so a small move alone says nothing about the reader.
let box = null, last = 0;
const toEnd = () => { if (box && following.peek()) { box.scrollTop = box.scrollHeight; last = box.scrollTop; } };
const up = { onwheel: (e) => { if (e.deltaY < 0) following.set(false); }, ontouchmove: () => following.set(false),
  onkeydown: (e) => { if (['ArrowUp', 'PageUp', 'Home'].includes(e.key)) following.set(false); } };
const changes = new MutationObserver(() => requestAnimationFrame(toEnd));
function watch(el) { box = el; if (el) requestAnimationFrame(toEnd); }
function grown(el) { changes.disconnect(); if (el) changes.observe(el, { childList: true }); }
function scrolled(e) {
  const el = e.target, atEnd = el.scrollHeight - el.scrollTop - el.clientHeight < 24;
  const back = el.scrollTop < last - el.clientHeight / 2;
  last = el.scrollTop;
  if ((atEnd || back) && atEnd !== following.peek()) following.set(atEnd);
}
