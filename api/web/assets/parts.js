// Pieces that several views use.

import { h, signal } from './ui.js';
import { clock, severity, isTrue } from './format.js';
import * as agent from './agent.js';

const words = {
  running: 'Running', stopped: 'Stopped', starting: 'Starting', stopping: 'Stopping', recovering: 'Recovering',
  degraded: 'Degraded',
};

/** The phase of a pipeline: a mark with a shape of its own, and a word. */
export function phase(s) {
  const p = s.state.phase, on = s.placement;
  if (on?.failed && p === 'stopped')
    return h('span', { class: 'phase warn' },
      h('span', { class: 'mark', 'aria-hidden': 'true' }),
      h('span', { title: on.failed.error },
        on.member ? 'Rolled back, on ' + on.member : 'Rolled back, on no member yet'));
  if (on && p === 'stopped')
    return h('span', { class: 'phase ' + (on.member ? 'off' : 'busy') },
      h('span', { class: 'mark', 'aria-hidden': 'true' }),
      on.member ? h('span', { title: on.since ? 'since ' + on.since : '' }, 'On ' + on.member) : 'On no member yet');
  const rolled = p === 'running' && isTrue(s, 'RolledBack');
  if (s.state.stall && p === 'running')
    return h('span', { class: 'phase bad' },
      h('span', { class: 'mark', 'aria-hidden': 'true' }),
      h('span', { title: s.state.stall.message },
        s.state.stall.reason === 'SourceSilent' ? 'Silent' : 'Not delivering'));
  const kind = rolled
    ? 'warn'
    : { running: 'good', starting: 'busy', stopping: 'busy', recovering: 'warn', degraded: 'bad' }[p] || 'off';
  return h('span', { class: 'phase ' + kind },
    h('span', { class: 'mark', 'aria-hidden': 'true' }),
    rolled ? 'Rolled back' : words[p] || p,
    s.override
      ? h('small', { title: `The ${s.owner.kind === 'file' ? 'file' : 'declaration'} says ${s.declared}.` }, ' by hand')
      : null);
}

/** A time of day, with its date when that is another day, and in full as its title. */
export const when = (at, props) => h('time', { datetime: at, title: at, ...props }, clock(at));

/** Text that shows two lines, and all lines once it is opened. */
export function long(text, props = {}) {
  if (text.length < 60 && !text.includes('\n')) return h('div', props, text);
  return h('details', { ...props, class: 'long ' + (props.class || '') },
    h('summary', { class: 'clamp', title: 'show the whole text, or less' }, text));
}

/** A line of measurements, the newest at the right. */
export function sparkline(points, { width = 96, height = 22, label } = {}) {
  if (!points || points.length < 2) return h('svg', { class: 'spark', width, height, 'aria-hidden': 'true' });
  const top = Math.max(...points, 1e-9), step = width / (points.length - 1);
  const at = points.map((v, i) => `${Math.round(i * step)},${Math.round(height - 1 - (v / top) * (height - 3))}`);
  // One shape that is filled and stroked: its sides and its base are outside of what is shown.
  return h('svg', {
    class: 'spark', width, height, viewBox: `0 0 ${width} ${height}`, role: label ? 'img' : null, 'aria-label': label,
    'aria-hidden': label ? null : 'true',
  },
    h('polygon', {
      points: `-4,${height + 4} -4,${at[0].split(',')[1]} ${at.join(' ')} `
        + `${width + 4},${at.at(-1).split(',')[1]} ${width + 4},${height + 4}`,
    }));
}

/** A question with a way out; answers whether it was confirmed. */
export const question = signal(null);
let dialog = null; // that shows the question

export function ask({ title, text, yes = 'Yes', danger = false, body = null }) {
  return new Promise((answer) => question.set({ title, text, yes, danger, body, answer }));
}

export function questionDialog() {
  const q = question();
  if (!q) return null;
  const close = (value) => {
    dialog?.close(); // gives the focus back to where it was
    question.set(null);
    q.answer(value);
  };
  return h('dialog', {
    key: 'question', ref: (el) => { dialog = el; el?.showModal(); }, oncancel: () => close(false), 'aria-labelledby': 'question-title',
  },
    h('h2', { id: 'question-title' }, q.title),
    q.text ? h('p', null, q.text) : null,
    q.body,
    h('div', { class: 'actions' },
      h('button', { onclick: () => close(false) }, 'Cancel'),
      h('button', { class: q.danger ? 'danger' : 'primary', onclick: () => close(true), ref: (el) => el?.focus() },
        q.yes)));
}

/** A button that is shown to those who may use it, and does nothing while what it did goes on. It keeps the focus. */
const busy = signal(new Set());

export function action(label, key, run, { kind = '', disabled = false } = {}) {
  if (!agent.mayWrite()) return null;
  const going = busy().has(key);
  const click = async () => {
    if (busy.peek().has(key)) return;
    busy.update((all) => new Set(all).add(key));
    try {
      await run();
    } finally {
      busy.update((all) => { const rest = new Set(all); rest.delete(key); return rest; });
    }
  };
  return h('button', {
    class: kind, key, disabled: disabled && !going, 'aria-disabled': going ? 'true' : null,
    'aria-busy': going ? 'true' : null, onclick: click,
  }, label);
}

/** Copies text and says so. */
export function copyButton(text, label = 'Copy') {
  return h('button', { class: 'plain', onclick: () => agent.attempt('copied', () => copy(text())) }, label);
}

async function copy(text) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  // Pages without TLS have no clipboard.
  const area = Object.assign(document.createElement('textarea'), { value: text });
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('the browser does not allow copying');
}

/** What is wrong, where, and the lines it is about. */
export function problem(p, { link = true } = {}) {
  const where = [p.file, p.line, p.column].filter(Boolean).join(':');
  return h('div', { class: 'problem ' + (p.severity === 'error' ? 'bad' : 'warn') },
    h('div', null,
      link && p.file
        ? h('a', { class: 'mono', href: '#/files/' + encodeURIComponent(p.file) }, where)
        : h('span', { class: 'mono' }, where || p.path),
      ' ', p.message),
    excerpt(p));
}

function excerpt(p) {
  if (!p.excerpt) return null;
  const lines = p.excerpt.split('\n').map((text, i) => ({ text, line: Math.max(1, p.line - 2) + i }));
  return h('pre', { class: 'excerpt', tabindex: 0, 'aria-label': 'The lines of the file' },
    lines.flatMap((l) => [
      h('span', { class: l.line === p.line ? 'hit' : '' }, String(l.line).padStart(4) + ' │ ' + l.text + '\n'),
      l.line === p.line && p.column
        ? h('span', { class: 'caret' }, '     │ ' + ' '.repeat(p.column - 1) + '^\n')
        : null]));
}

/** A state of affairs with nothing to show, and what to do next. */
export function empty(title, ...more) {
  return h('section', { class: 'empty' }, h('h2', null, title), more);
}

/** A dotted name that may go on in the next line after a dot. */
export const dotted = (name) => name.split(/(?<=\.)/).flatMap((part) => [part, h('wbr')]);

/** Tabs that are links, so that each has an address. */
export function tabs(base, all, at) {
  return h('nav', { class: 'tabs', 'aria-label': 'Views of this pipeline' },
    all.map(([path, label, extra]) =>
      h('a', { key: path, href: base + (path && '/' + path), 'aria-current': at === path ? 'page' : null },
        label, extra)));
}

export { severity };
