// Making a pipeline, by forms or as YAML, and trying an edit of a file.

import { h, signal } from './ui.js';
import * as agent from './agent.js';
import { copyButton, empty, questionDialog, action } from './parts.js';
import { Editor, planAndApply, planFile } from './editor.js';

const plugins = signal(null);
const processors = signal([]);
const draft = signal(null);
const asYAML = signal(false);
const more = signal(new Set());
let editor = null;

function load() {
  if (plugins.peek()) return;
  plugins.set([]);
  agent.get('/v1/connectors/plugins').then(plugins.set, (e) => agent.toast(e.message, 'bad'));
  agent.get('/v1/processors/plugins').then(processors.set, () => {});
}

const short = (name) => name.replace(/^[a-z]+:/, '').replace(/@.*$/, '');
const start = () => ({
  id: '', name: '', status: 'running',
  connectors: [
    { id: 'in', type: 'source', plugin: '', settings: {} },
    { id: 'out', type: 'destination', plugin: '', settings: {} },
  ],
  processors: [],
});

export function create() {
  load();
  if (!draft()) queueMicrotask(() => draft.set(start()));
  const d = draft();
  if (!d || !plugins()?.length) return h('p', { class: 'quiet' }, 'Loading…');
  if (!agent.mayWrite())
    return empty('This token may only read', h('p', null, 'Log in with the admin token to create a pipeline.'));
  return h('div', { class: 'stack' },
    h('div', { class: 'title' },
      h('h1', null, 'New pipeline'), h('span', { class: 'grow' }),
      h('div', { class: 'segments', role: 'group', 'aria-label': 'How' },
        h('button', { 'aria-pressed': String(!asYAML()), onclick: () => asYAML.set(false) }, 'Form'),
        h('button', { 'aria-pressed': String(asYAML()), onclick: toYAML }, 'YAML'))),
    asYAML() ? yamlView() : form(d), questionDialog());
}

async function finish(documents) {
  if (await planAndApply(documents)) {
    const id = documents[0].id;
    draft.set(null);
    editor = null;
    location.hash = '#/pipelines/' + encodeURIComponent(id);
  }
}

function form(d) {
  // What is changed is the draft as it is, which may be ahead of what is shown.
  const change = (more) => draft.update((now) => ({ ...now, ...(typeof more === 'function' ? more(now) : more) }));
  const one = (list, i) => (more) => change((now) =>
    ({ [list]: now[list].map((x, j) => (i === j ? { ...x, ...(typeof more === 'function' ? more(x) : more) } : x)) }));
  const remove = (list, i) => () => change((now) => ({ [list]: now[list].filter((_, j) => j !== i) }));
  const add = (list, make) => () => change((now) => ({ [list]: [...now[list], make(now[list].length + 1)] }));
  const submit = (e) => { e.preventDefault(); finish([clean(draft.peek())]); };
  return h('form', { class: 'stack', onsubmit: submit },
    h('fieldset', { class: 'card' },
      h('legend', null, 'Pipeline'),
      field('id', 'Id',
        h('input', {
          id: 'id', required: true, pattern: '[A-Za-z0-9_.:\\-]+', maxlength: 128, value: d.id,
          oninput: (e) => change({ id: e.target.value }),
        }),
        'letters, digits, - _ and .'),
      field('name', 'Name', h('input', { id: 'name', value: d.name, oninput: (e) => change({ name: e.target.value }) }),
        'for people; the id when left empty'),
      field('status', 'Status',
        h('select', { id: 'status', onchange: (e) => change({ status: e.target.value }) },
          ['running', 'stopped'].map((v) => h('option', { key: v, value: v, selected: d.status === v }, v))),
        'whether it starts at once'),
      field('routing', 'Routing',
        h('select', { id: 'routing', onchange: (e) => change({ routing: e.target.value }) },
          [['', 'all'], ['first', 'first']].map(([v, text]) =>
            h('option', { key: text, value: v, selected: (d.routing || '') === v }, text))),
        'which destinations with a true condition get a record')),
    d.connectors.map((c, i) => connectorForm(c, i, one('connectors', i), remove('connectors', i))),
    d.processors.map((p, i) => processorForm(p, i, one('processors', i), remove('processors', i))),
    h('div', { class: 'bar' },
      h('button', {
        type: 'button',
        onclick: add('connectors', (n) => ({ id: 'in' + n, type: 'source', plugin: '', settings: {} })),
      }, 'Add source'),
      h('button', {
        type: 'button',
        onclick: add('connectors', (n) =>
          ({ id: 'out' + n, type: 'destination', plugin: '', condition: '', settings: {} })),
      }, 'Add destination'),
      processors().length
        ? h('button', {
          type: 'button',
          onclick: add('processors', (n) => ({ id: 'step' + n, plugin: '', settings: {}, condition: '' })),
        }, 'Add processor')
        : null,
      h('span', { class: 'grow' }),
      h('button', { class: 'primary' }, 'Plan and create…')));
}

function field(id, label, control, help) {
  return h('div', { class: 'field' },
    h('label', { for: id }, label), control,
    h('small', { class: 'quiet' }, help || ''));
}

function connectorForm(c, i, change, remove) {
  const usable = plugins().filter((p) =>
    Object.keys(c.type === 'source' ? p.sourceParams : p.destinationParams).length);
  const plugin = usable.find((p) => short(p.name) === c.plugin);
  const params = plugin ? (c.type === 'source' ? plugin.sourceParams : plugin.destinationParams) : {};
  return h('fieldset', { class: 'card', key: 'c' + i },
    h('legend', null, c.type === 'source' ? 'Source' : 'Destination'),
    field(`c${i}id`, 'Id',
      h('input', { id: `c${i}id`, required: true, value: c.id, oninput: (e) => change({ id: e.target.value }) })),
    field(`c${i}plugin`, 'Plugin',
      h('select', {
        id: `c${i}plugin`, required: true, onchange: (e) => change({ plugin: e.target.value, settings: {} }),
      },
        h('option', { value: '', selected: !c.plugin }, 'choose…'),
        usable.map((p) =>
          h('option', { key: p.name, value: short(p.name), selected: short(p.name) === c.plugin }, short(p.name)))),
      plugin?.summary),
    c.type === 'destination'
      ? field(`c${i}condition`, 'Condition',
        h('input', {
          id: `c${i}condition`, class: 'wide mono', value: c.condition || '',
          placeholder: '{{ eq .Metadata.kind "order" }}', oninput: (e) => change({ condition: e.target.value }),
        }),
        'a template that is true for the records that it gets; empty for all records')
      : null,
    c.type === 'destination'
      ? field(`c${i}default`, 'Default',
        h('input', {
          id: `c${i}default`, type: 'checkbox', checked: !!c.default,
          onchange: (e) => change({ default: e.target.checked }),
        }),
        'it gets the records for which no condition is true')
      : null,
    c.type === 'destination'
      ? field(`c${i}isolate`, 'Isolate',
        h('input', {
          id: `c${i}isolate`, type: 'checkbox', checked: !!c.isolate,
          onchange: (e) => change({ isolate: e.target.checked ? {} : undefined }),
        }),
        'its records wait in a log on disk, so that it holds up no other destination')
      : null,
    parameters(`c${i}`, params, c.settings, (edit) => change((x) => ({ settings: edit(x.settings) }))),
    h('button', { type: 'button', class: 'plain remove', 'aria-label': 'Remove ' + (c.id || 'it'), onclick: remove },
      'Remove'));
}

function processorForm(p, i, change, remove) {
  const plugin = processors().find((x) => short(x.name) === p.plugin);
  return h('fieldset', { class: 'card', key: 'p' + i },
    h('legend', null, 'Processor'),
    field(`p${i}id`, 'Id',
      h('input', { id: `p${i}id`, required: true, value: p.id, oninput: (e) => change({ id: e.target.value }) })),
    field(`p${i}plugin`, 'Plugin',
      h('select', {
        id: `p${i}plugin`, required: true, onchange: (e) => change({ plugin: e.target.value, settings: {} }),
      },
        h('option', { value: '', selected: !p.plugin }, 'choose…'),
        processors().map((x) =>
          h('option', { key: x.name, value: short(x.name), selected: short(x.name) === p.plugin }, short(x.name)))),
      plugin?.summary),
    field(`p${i}condition`, 'Condition',
      h('input', {
        id: `p${i}condition`, class: 'wide mono', value: p.condition, placeholder: '{{ eq .Metadata.kind "order" }}',
        oninput: (e) => change({ condition: e.target.value }),
      }),
      'a template that yields true or false; empty for all records'),
    parameters(`p${i}`, plugin?.parameters || {}, p.settings, (edit) =>
      change((x) => ({ settings: edit(x.settings) }))),
    h('button', { type: 'button', class: 'plain remove', 'aria-label': 'Remove ' + (p.id || 'it'), onclick: remove },
      'Remove'));
}

const needed = (p) => rule(p, 'TYPE_REQUIRED') !== undefined && !p.default;
const rule = (p, type) => p.validations.find((v) => v.type === type)?.value;
const secretName = /(^|[._-])(password|passwd|secret|token|credential|api[._-]?key|private[._-]?key|access[._-]?key)/i;

function parameters(prefix, params, settings, change) {
  const names = Object.keys(params).sort((a, b) => needed(params[b]) - needed(params[a]) || a.localeCompare(b));
  const first = names.filter((n) => (needed(params[n]) && !n.includes('*')) || n in settings),
    rest = names.filter((n) => !first.includes(n));
  const open = more().has(prefix);
  return [first.map((n) => parameter(prefix, n, params[n], settings, change)),
    rest.length
      ? h('details', {
        key: 'more', open,
        ontoggle: (e) => more.update((all) => {
          const s = new Set(all);
          e.target.open ? s.add(prefix) : s.delete(prefix);
          return s;
        }),
      },
        h('summary', null, `${rest.length} optional settings`),
        open ? rest.map((n) => parameter(prefix, n, params[n], settings, change)) : null)
      : null];
}

function parameter(prefix, name, p, settings, change) {
  const id = prefix + name, required = needed(p), list = rule(p, 'TYPE_INCLUSION')?.split(',');
  if (name.includes('*')) return starred(prefix, name, p, settings, change);
  const set = (value) => change((now) => {
    const next = { ...now };
    if (value === '' && !required) delete next[name]; else next[name] = value;
    return next;
  });
  const common = { id, required, 'aria-describedby': id + '-help' };
  const value = settings[name] ?? '';
  const control = p.type === 'TYPE_BOOL' || list
    ? h('select', { ...common, onchange: (e) => set(e.target.value) },
      h('option', { value: '', selected: value === '' }, p.default ? `default: ${p.default}` : 'choose…'),
      (list || ['true', 'false']).map((v) =>
        h('option', { key: v, value: literal(v), selected: literal(v) === value }, v)))
    : h('input', {
      ...common, type: secretName.test(name) ? 'password' : 'text', autocomplete: 'off',
      inputmode: { TYPE_INT: 'numeric', TYPE_FLOAT: 'decimal' }[p.type] || null, placeholder: p.default, value,
      class: 'wide', oninput: (e) => set(e.target.value),
    });
  const rules = [
    p.type.slice(5).toLowerCase(), required ? 'required' : '', bound(p, 'TYPE_GREATER_THAN', '>'),
    bound(p, 'TYPE_LESS_THAN', '<'), bound(p, 'TYPE_REGEX', 'matches'),
    secretName.test(name) ? 'secret: a reference such as ${NAME} is better' : '',
  ].filter(Boolean).join(', ');
  return h('div', { class: 'field', key: name },
    h('label', { for: id, class: 'mono' }, name),
    control,
    h('small', { class: 'quiet', id: id + '-help' }, `${p.description} (${rules})`));
}

const bound = (p, type, sign) => { const v = rule(p, type); return v === undefined ? '' : `${sign} ${v}`; };

/** What a plugin proposes, as a value that stands for itself: no reference in it is resolved. */
const literal = (v) => v.split('$').join('$$');

/** A family of settings, whose names contain a part that the user chooses. */
function starred(prefix, name, p, settings, change) {
  const [before, after] = name.split('*'), id = prefix + name;
  const own = Object.keys(settings).filter((k) => k.startsWith(before) && k.endsWith(after));
  const add = () => {
    const part = prompt(`Name for ${name}`);
    if (part) change((now) => ({ ...now, [before + part + after]: literal(p.default || '') }));
  };
  return h('div', { class: 'field', key: name },
    h('span', { class: 'mono', id }, name),
    h('div', null,
      own.map((k) => h('div', { class: 'inline', key: k },
        h('code', null, k),
        h('input', {
          'aria-label': k, value: settings[k], oninput: (e) => change((now) => ({ ...now, [k]: e.target.value })),
        }),
        h('button', {
          type: 'button', class: 'plain icon', 'aria-label': 'Remove ' + k,
          onclick: () => change((now) => { const next = { ...now }; delete next[k]; return next; }),
        }, '×'))),
      h('button', { type: 'button', onclick: add, 'aria-describedby': id }, 'Add one')),
    h('small', { class: 'quiet' }, p.description));
}

/** A draft without what is empty. */
function clean(d) {
  const some = (o) => Object.fromEntries(Object.entries(o).filter(([, v]) => v !== ''));
  return {
    id: d.id, status: d.status, ...(d.name ? { name: d.name } : {}), ...(d.routing ? { routing: d.routing } : {}),
    connectors: d.connectors.map((c) =>
      ({ ...some({ ...c, settings: '', default: c.default || '' }), settings: some(c.settings) })),
    processors: d.processors.map((p) => ({ ...some({ ...p, settings: '' }), settings: some(p.settings) })),
  };
}

const escaped = (c) => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0');
const quote = (v) =>
  (/^[A-Za-z_/][\w./:@-]*$/.test(v) && !/^(true|false|yes|no|on|off|null)$/i.test(v)
    ? v
    : JSON.stringify(v).replace(/[\u007f-\u009f\u2028\u2029\ufeff]/g, escaped));

function yaml(d) {
  const settings = (s, pad) =>
    (Object.keys(s).length
      ? [`${pad}settings:`, ...Object.entries(s).map(([k, v]) => `${pad}  ${k}: ${quote(v)}`)]
      : []);
  const processor = (p) => [
    `      - id: ${quote(p.id)}`, `        plugin: ${quote(p.plugin || 'field.set')}`,
    ...(p.condition ? [`        condition: ${quote(p.condition)}`] : []), ...settings(p.settings, '        '),
  ];
  return ['version: "2.2"', 'pipelines:', `  - id: ${quote(d.id || 'my-pipeline')}`, `    status: ${d.status}`,
    ...(d.name ? [`    name: ${quote(d.name)}`] : []), ...(d.routing ? [`    routing: ${d.routing}`] : []),
    '    connectors:',
    ...d.connectors.flatMap((c) => [
      `      - id: ${quote(c.id)}`, `        type: ${c.type}`,
      `        plugin: ${quote(c.plugin || (c.type === 'source' ? 'generator' : 'log'))}`,
      ...(c.condition ? [`        condition: ${quote(c.condition)}`] : []),
      ...(c.default ? ['        default: true'] : []),
      ...(c.isolate ? ['        isolate: {}'] : []), ...settings(c.settings, '        '),
    ]),
    ...(d.processors.length ? ['    processors:', ...d.processors.flatMap(processor)] : []), ''].join('\n');
}

function toYAML() {
  if (!editor) editor = new Editor({ text: yaml(clean(draft.peek())) });
  asYAML.set(true);
}

function yamlView() {
  return h('div', { class: 'stack' },
    h('p', { class: 'quiet' },
      'Edit the pipeline as in a pipeline file. Ctrl-Space completes. '
        + 'Problems appear below, as conduit pipelines validate reports them.'),
    editor.view(), editor.problems(),
    h('div', { class: 'bar' },
      copyButton(() => editor.text.peek(), 'Copy YAML'),
      h('span', { class: 'grow' }),
      action('Plan and create…', 'create',
        async () => { const documents = await editor.documents(); if (documents) await finish(documents); },
        { kind: 'primary', disabled: editor.broken || !(editor.check().documents || []).length })));
}

const fileEdits = new Map();

/** Trying an edit of a pipeline file: what it would do, without saving it. */
export function fileEditor(path) {
  if (!agent.mayWrite())
    return empty('This token may only read',
      h('p', null, 'Files may contain secrets. Log in with the admin token to read them here.'));
  const state = agent.files().find((f) => f.path === path);
  if (!fileEdits.has(path)) {
    fileEdits.set(path, signal(null));
    agent.get('/v1/files/content?path=' + encodeURIComponent(path)).then((a) =>
      fileEdits.get(path).set({ base: a.content, editor: new Editor({ text: a.content, path }) }),
      (e) => { fileEdits.get(path).set({ error: e }); });
  }
  const edit = fileEdits.get(path)();
  return h('div', { class: 'stack', key: path },
    h('div', { class: 'title' },
      h('div', null, h('a', { href: '#/', class: 'quiet' }, 'Pipelines'), h('h1', { class: 'mono' }, path)),
      h('span', { class: 'grow' }),
      edit?.editor
        ? [
          copyButton(() => edit.editor.text.peek(), 'Copy'),
          h('button', { onclick: () => { fileEdits.delete(path); location.reload(); } }, 'Read again'),
          action('What would this change?', 'plan', () => planFile(path, edit.editor.text.peek()), { kind: 'primary' }),
        ]
        : null),
    h('p', { class: 'note' },
      'This is the file on the disk of the agent, with secrets redacted. '
        + 'Try an edit here; to apply it, save the file there.'),
    state ? null : h('p', { class: 'quiet' }, 'The agent knows no such file.'),
    !edit ? h('p', { class: 'quiet' }, 'Loading…')
      : edit.error ? h('div', { class: 'problem bad' }, edit.error.message)
      : [edit.editor.view(path), edit.editor.problems()],
    questionDialog());
}
