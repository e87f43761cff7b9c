// The declaration of a pipeline as YAML: shown, edited with the help of the agent, planned, applied.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { action, ask, copyButton, problem } from './parts.js';

const open = new Set(); // the editors in the page

/** A text with line numbers, colours, the agent's problems at their lines and its completions. */
export class Editor {
  constructor({ text = '', path = '', readOnly = false, changed = () => {} }) {
    Object.assign(this, { path, readOnly, changed });
    this.text = signal(text);
    this.check = signal({ problems: [], completions: [], documents: [] });
    this.choice = signal(0);
    this.menu = signal(null);
    this.pending = 0;
    this.area = null;
  }

  set(text) { this.text.set(text); this.ask(); }

  /** Has the agent check the text, soon after the last key (debounce). */
  ask(complete = false) {
    clearTimeout(this.pending);
    this.pending = setTimeout(() => this.validate(complete), complete ? 0 : 200);
  }

  async validate(complete) {
    if (!agent.mayWrite.peek()) return; // the agent helps those who may change something
    const { line, column } = this.cursor(), text = this.text.peek();
    try {
      const answer = await agent.post('/v1/editor', { path: this.path, content: text, line, column });
      if (text !== this.text.peek()) return;
      this.checked = text;
      this.check.set(answer);
      this.changed(answer);
      const all = complete || this.typed ? answer.completions || [] : [];
      this.choice.set(0);
      this.menu.set(all.length ? { line, column, all } : null);
    } catch (e) {
      if (e.status !== 401)
        this.check.set({ problems: [{ severity: 'error', message: e.message }], completions: [], documents: [] });
    }
    this.typed = false;
  }

  /** The documents of the text as it is now, which the last check may not be of; nothing when it has an error. */
  async documents() {
    if (this.checked !== this.text.peek()) {
      clearTimeout(this.pending);
      await this.validate(false);
    }
    const { problems, documents } = this.check.peek();
    return this.checked !== this.text.peek() || (problems || []).some((p) => p.severity === 'error')
      ? null
      : documents || [];
  }

  cursor() {
    const before = this.text.peek().slice(0, this.area?.selectionStart ?? 0).split('\n');
    return { line: before.length, column: before.at(-1).length + 1 };
  }

  /** Puts a completion in place of the word before the cursor. */
  take(c) {
    const at = this.area.selectionStart, text = this.text.peek(), from = at - (c.replace || 0);
    const next = text.slice(0, from) + c.insert + text.slice(at);
    this.menu.set(null);
    this.area.value = next;
    this.area.selectionStart = this.area.selectionEnd = from + c.insert.length;
    this.set(next);
    this.area.focus();
  }

  keys(e) {
    const menu = this.menu.peek();
    if (e.key === ' ' && e.ctrlKey) { e.preventDefault(); this.ask(true); return; }
    if (menu) {
      const move = { ArrowDown: 1, ArrowUp: -1 }[e.key];
      if (move) {
        e.preventDefault();
        this.choice.update((n) => (n + move + menu.all.length) % menu.all.length);
        setTimeout(() =>
          document.getElementById('completion-' + this.choice.peek())?.scrollIntoView({ block: 'nearest' }),
          20);
        return;
      }
      if (e.key === 'Enter' || e.key === 'Tab') { e.preventDefault(); this.take(menu.all[this.choice.peek()]); return; }
      if (e.key === 'Escape') { e.preventDefault(); e.stopPropagation(); this.menu.set(null); return; }
    }
    if (e.key === 'Enter' && !e.shiftKey) { // the next line begins where this one does
      const line = this.area.value.slice(0, this.area.selectionStart).split('\n').at(-1),
        indent = line.match(/^[ -]*/)[0].replace(/-/g, ' ') + (/:\s*$/.test(line) ? '  ' : '');
      e.preventDefault();
      this.area.setRangeText('\n' + indent, this.area.selectionStart, this.area.selectionEnd, 'end');
      this.typed = true;
      this.set(this.area.value);
    }
  }

  view(label = 'Pipeline file') {
    const text = this.text(), lines = text.split('\n'), wrong = new Map();
    for (const p of this.check().problems || []) if (p.line && wrong.get(p.line) !== 'error')
      wrong.set(p.line, p.severity);
    const input = (e) => { this.typed = true; this.set(e.target.value); };
    return h('div', { class: 'editor' },
      h('div', { class: 'gutter', 'aria-hidden': 'true' },
        lines.map((_, i) => h('span', { class: wrong.get(i + 1) || '' }, i + 1))),
      h('div', { class: 'code' },
        h('pre', { 'aria-hidden': 'true' }, lines.flatMap((l) => [...highlight(l), '\n'])),
        h('textarea', { value: text, spellcheck: 'false', autocapitalize: 'off', autocomplete: 'off', wrap: 'off',
          readonly: this.readOnly || null, 'aria-label': label, rows: lines.length + 1,
          ref: (el) => { this.area = el; el ? open.add(this) : open.delete(this); if (el) this.ask(); }, oninput: input,
          onkeydown: (e) => this.keys(e), onblur: () => setTimeout(() => this.menu.set(null), 150),
          'aria-autocomplete': 'list', 'aria-controls': this.menu() ? 'completions' : null,
          'aria-activedescendant': this.menu() ? 'completion-' + this.choice() : null }),
        this.menuView()));
  }

  menuView() {
    const menu = this.menu();
    if (!menu || !this.area) return null;
    // It stands in the window, not in the editor, whose edges would cut it off.
    const at = this.area.getBoundingClientRect(), below = at.top + menu.line * 20 + 10,
      fits = below + 240 < innerHeight || below < 260;
    const style = {
      left: `clamp(8px, calc(${Math.round(at.left)}px + 12px + ${menu.column - 1} * .55em), 100vw - 300px)`,
      top: fits ? below + 'px' : 'auto', bottom: fits ? 'auto' : innerHeight - below + 24 + 'px',
    };
    return h('ul', { class: 'menu', id: 'completions', role: 'listbox', 'aria-label': 'Completions', style },
      menu.all.slice(0, 40).map((c, i) =>
        h('li', {
          key: c.label, id: 'completion-' + i, role: 'option', 'aria-selected': String(i === this.choice()),
          onmousedown: (e) => { e.preventDefault(); this.take(c); },
        }, h('code', null, c.label), h('small', { class: 'quiet' }, c.detail || ''))));
  }

  problems() {
    const list = this.check().problems || [];
    return h('div', { class: 'stack', 'aria-live': 'polite' },
      list.map((p, i) => h('div', { key: i }, problem({ ...p, excerpt: null }, { link: false }))));
  }

  get broken() { return (this.check().problems || []).some((p) => p.severity === 'error'); }
}

/** The coloured pieces of a line of YAML. */
function highlight(line) {
  const m = /^(\s*(?:- )*)((?:"[^"]*"|'[^']*'|[^\s#'"][^:#]*?))(:)(\s|$)(.*)$/.exec(line);
  if (!m) return scalar(line);
  return [m[1], h('span', { class: 'key' }, m[2]), m[3], m[4], ...scalar(m[5])];
}

function scalar(text) {
  const comment = /(^|\s)#.*$/.exec(text), value = comment ? text.slice(0, comment.index) : text;
  const kind = /^\s*(true|false|null|~|-?\d[\d_.eE+-]*)\s*$/.test(value) ? 'number'
    : /^\s*-?\s*["']/.test(value) ? 'string' : '';
  const parts = value.split(/(\$\{[^}]*\}|\$[A-Za-z_]\w*)/).map((p) =>
    (p.startsWith('$') && p.length > 1 ? h('span', { class: 'ref' }, p)
      : kind && p ? h('span', { class: kind }, p) : p));
  return comment ? [...parts, h('span', { class: 'comment' }, text.slice(comment.index))] : parts;
}

const effects = {
  none: 'nothing that runs changes', 'in-place': 'changes in place, without a stop',
  'restart-destination': 'restarts this destination', restart: 'restarts the pipeline from its saved position',
  'position-lost': 'starts over: the position is lost',
};

/** What a plan says would happen. */
export function planView(changes) {
  if (!changes.length) return h('p', { class: 'quiet' }, 'This changes nothing.');
  return h('ul', { class: 'plan' },
    changes.map((c, i) => h('li', { key: i, class: 'effect-' + c.effect },
      h('b', null, c.action), ' ', h('code', null, c.id),
      c.paths?.length ? h('span', { class: 'quiet' }, ': ' + c.paths.join(', ')) : null,
      h('div', null, effects[c.effect] || c.effect))));
}

const fromDocument = (plan) =>
  plan.changes.map((c) => ({ action: c.action, id: c.id, effect: c.exactEffect, paths: c.configPaths }));
const fromFiles = (plan) => plan.pipelines.map((p) =>
  ({ action: p.action, id: p.id, effect: p.effect, paths: (p.changes || []).map((c) => c.path).filter(Boolean) }));

/** Shows what documents would change, and applies them when that is confirmed. */
export async function planAndApply(documents) {
  const plans = [];
  for (const config of documents) {
    const plan = await agent.attempt('', () => agent.post('/v1/pipelines/plan', { config }));
    if (!plan) return false;
    plans.push({ config, plan });
  }
  const changes = plans.flatMap((p) => fromDocument(p.plan));
  if (!changes.length) { agent.toast('this changes nothing'); return false; }
  if (!await ask({
    title: 'What this changes', body: planView(changes), yes: 'Apply',
    danger: changes.some((c) => c.effect === 'position-lost'),
  })) return false;
  for (const { config, plan } of plans) {
    if (!await agent.attempt(`${config.id} is applied`, () =>
      agent.post('/v1/pipelines/apply', { config, hash: plan.hash }))) return false;
  }
  return true;
}

/** Shows what saving content as the file path would change. */
export async function planFile(path, content) {
  const plan = await agent.attempt('', () => agent.post('/v1/plan', { files: [{ path, content }] }));
  if (!plan) return;
  const wrong = plan.problems.filter((p) => p.severity === 'error' && (!p.file || p.file === path));
  await ask({
    title: `Changes if this is saved as ${path}`,
    body: [
      wrong.map((p, i) => h('div', { key: i }, problem(p, { link: false }))),
      wrong.length ? null : planView(fromFiles(plan)),
    ],
    yes: 'Close',
  });
}

addEventListener('scroll', (e) => { if (e.target === document) for (const editor of open) editor.menu.set(null); },
  { passive: true });

const edits = new Map(); // by pipeline id

/** The tab that shows what a pipeline declares. */
export function declaration(s, detail) {
  if (!detail) return h('p', { class: 'quiet' }, 'Loading…');
  const file = s.owner.kind === 'file';
  let edit = edits.get(s.id);
  if (!edit || (edit.base !== detail.yaml && edit.editor.text.peek() === edit.base)) {
    edit = { base: detail.yaml, editor: new Editor({ text: detail.yaml, path: file ? s.owner.path : '' }) };
    edits.set(s.id, edit);
  }
  const { editor } = edit;
  editor.readOnly = file || !agent.mayWrite();
  const dirty = editor.text() !== edit.base;
  const apply = async () => {
    const documents = await editor.documents();
    if (documents && await planAndApply(documents)) edits.delete(s.id);
  };
  return h('div', { class: 'stack', key: 'declaration ' + s.id },
    file
      ? h('p', { class: 'note' }, 'A file declares this pipeline: edit ',
        h('code', null, s.owner.path),
        s.owner.line ? ` at line ${s.owner.line}` : '',
        ' and save; the change is in effect within milliseconds. ',
        h('a', { href: '#/files/' + encodeURIComponent(s.owner.path) }, 'Try an edit here'),
        ' to see its effect.')
      : null,
    h('div', { class: 'bar' },
      copyButton(() => editor.text.peek(), 'Copy YAML'),
      h('span', { class: 'grow' }),
      file
        ? null
        : [
          dirty ? action('Discard edits', 'discard', () => { edits.delete(s.id); editor.text.set(edit.base); }) : null,
          action('Plan and apply…', 'apply', apply, { kind: 'primary', disabled: !dirty || editor.broken }),
        ]),
    editor.view(),
    dirty || editor.broken ? editor.problems() : null);
}
