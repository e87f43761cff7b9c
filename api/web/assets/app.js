// The frame of the page: where one is, navigation, login, messages.

import { h, signal, mount, effect } from './ui.js';
import * as agent from './agent.js';
import { count, severity } from './format.js';
import { fleet } from './fleet.js';

const pages = [
  ['', 'Pipelines', 'p'], ['plugins', 'Plugins', 'l'], ['events', 'Events', 'e'], ['logs', 'Log', 'o'],
  ['agent', 'Agent', 'a'],
];

/** The part of the address behind #/, as words. */
export const route = signal(parse());

function parse() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return { words: path.split('/').filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query) };
}
addEventListener('hashchange', () => {
  route.set(parse());
  scrollTo(0, 0);
  document.querySelector('main')?.focus({ preventScroll: true });
});

// Views other than the first are loaded when they are opened.
const loaded = signal({});
const asked = new Set();

function view(name, file = name) {
  const module = loaded()[name];
  if (module) return module[name];
  if (!asked.has(name)) {
    asked.add(name);
    import(`./${file}.js`).then((m) => loaded.update((all) => ({ ...all, [name]: m })),
      () => { asked.delete(name); agent.toast('this part of the page could not be loaded', 'bad'); });
  }
  return () => h('p', { class: 'quiet' }, 'Loading…');
}

function content() {
  const { words } = route();
  switch (words[0]) {
    case undefined: return fleet();
    case 'pipelines': return words[1] ? view('pipeline')(words[1], words[2]) : fleet();
    case 'new': return view('create')();
    case 'files': return view('fileEditor', 'create')(words.slice(1).join('/'));
    case 'plugins': return view('plugins')(words[1]);
    case 'events': return view('events')();
    case 'logs': return view('logs')();
    case 'agent': return view('about', 'about')();
    default: return h('section', { class: 'empty' },
      h('h1', null, 'Page not found'),
      h('a', { href: '#/' }, 'To the pipelines'));
  }
}

const theme = signal(localStorage.getItem('conduit.theme') || 'auto');
effect(() => { document.documentElement.dataset.theme = theme(); });
function nextTheme() {
  const next = { auto: 'dark', dark: 'light', light: 'auto' }[theme.peek()];
  localStorage.setItem('conduit.theme', next);
  theme.set(next);
}

const links = { connecting: 'connecting…', live: 'live', lost: 'no connection, trying again…', login: 'token needed' };

function header() {
  const at = route().words[0] || '', here = at === 'pipelines' || at === 'new' || at === 'files' ? '' : at;
  let broken = agent.files().filter((f) => f.problems?.some((p) => p.severity === 'error')).length;
  for (const s of agent.pipelines().values()) if (severity(s) > 1) broken++;
  return h('header', { class: 'top' },
    h('a', { class: 'brand', href: '#/', 'aria-label': 'conduit, to the pipelines' }, logo(), h('b', null, 'conduit')),
    h('nav', { 'aria-label': 'Main' },
      pages.map(([path, name, key]) =>
        h('a', {
          href: '#/' + path, key: path, 'aria-current': here === path ? 'page' : null, 'aria-keyshortcuts': 'g ' + key,
        },
          name,
          path === '' && broken
            ? h('span', { class: 'badge bad', title: `${broken} need attention` }, count(broken))
            : null)),
      h('a', { href: '/docs/', key: 'docs' }, 'Docs'),
      h('a', { href: '/openapi/', key: 'api' }, 'API')),
    h('span', { class: 'grow' }),
    h('span', { class: 'link ' + agent.link(), role: 'status' },
      agent.down() ? 'waiting for its store' : links[agent.link()]),
    agent.session().role === 'read' ? h('span', { class: 'badge' }, 'read only') : null,
    agent.token() && agent.link() !== 'login'
      ? h('button', { class: 'plain', onclick: () => agent.setToken('') }, 'Log out')
      : null,
    h('button', {
      class: 'plain icon', 'aria-label': `Colours: ${theme()}`, title: `Colours: ${theme()}`, onclick: nextTheme,
    }, { auto: '◐', dark: '●', light: '○' }[theme()]),
    h('button', {
      class: 'plain icon', 'aria-label': 'Keyboard shortcuts', title: 'Keyboard shortcuts (?)',
      onclick: () => help.set(true),
    }, '?'));
}

function logo() {
  return h('svg', { viewBox: '0 0 32 32', class: 'logo', 'aria-hidden': 'true' },
    h('path', {
      d: 'M3 10h9c5 0 3 12 8 12h9M3 22h6m13-12h7', fill: 'none', stroke: 'currentColor', 'stroke-width': 3.2,
      'stroke-linecap': 'round',
    }));
}

function login() {
  const submit = (e) => {
    e.preventDefault();
    agent.setToken(e.target.elements.token.value.trim());
  };
  return h('main', { class: 'login', id: 'main', tabindex: -1 },
    h('form', { class: 'card', onsubmit: submit },
      h('h1', null, 'This agent requires a token'),
      agent.token() ? h('p', { class: 'bad', role: 'alert' }, 'The token is wrong.') : null,
      h('label', { for: 'token' }, 'Token'),
      h('input', {
        id: 'token', name: 'token', type: 'password', autocomplete: 'off', required: true, ref: (el) => el?.focus(),
      }),
      h('p', { class: 'quiet' },
        'The settings api.auth.admin-token-file and api.auth.read-token-file name the files with the tokens. '
          + 'The page keeps it until this tab is closed.'),
      h('button', { class: 'primary' }, 'Log in')));
}

const help = signal(false);
const shortcuts = [['g then p, l, e, o, a', 'pipelines, plugins, events, log, agent'], ['/', 'search'],
  ['↑ ↓ or k j', 'the previous or next pipeline'], ['Enter', 'open'],
  ['1 … 7', 'the tabs of a pipeline'], ['Space', 'pause or resume the stream'], ['Esc', 'close, back']];

function dialogs() {
  if (!help()) return null;
  return h('dialog', {
    key: 'help', ref: (el) => el?.showModal(), onclose: () => help.set(false),
    onclick: (e) => e.target.tagName === 'DIALOG' && help.set(false), 'aria-label': 'Keyboard shortcuts',
  },
    h('h2', null, 'Keyboard'),
    h('dl', { class: 'keys' },
      shortcuts.map(([key, what]) => [h('dt', null, h('kbd', null, key)), h('dd', null, what)])),
    h('form', { method: 'dialog' }, h('button', null, 'Close')));
}

function messages() {
  return h('div', { class: 'toasts', 'aria-live': 'polite' },
    agent.toasts().map((t) =>
      h('div', { class: 'toast ' + t.kind, key: t.id, role: t.kind === 'bad' ? 'alert' : 'status' },
        h('span', null, t.text),
        h('button', { class: 'plain icon', 'aria-label': 'Close this message', onclick: () => agent.dismiss(t) },
          '×'))));
}

let chord = -Infinity; // when g was pressed, which a slow page hears of later
addEventListener('keydown', (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest?.('input, textarea, select, dialog')) return;
  if (e.key === '?') { help.set(true); e.preventDefault(); return; }
  if (e.key === 'g') { chord = e.timeStamp; return; }
  const page = e.timeStamp - chord < 1500 && pages.find(([, , key]) => key === e.key);
  chord = -Infinity;
  if (page) { location.hash = '#/' + page[0]; e.preventDefault(); }
});

const waiting = () => h('section', { class: 'card', role: 'alert' },
  h('h1', null, 'No pipeline runs'),
  h('p', { class: 'bad wrap' }, agent.down()),
  h('p', null, h('a', { href: '#/agent' }, 'The agent and its store')));
const main = () =>
  h('main', { id: 'main', tabindex: -1 }, agent.down() && route().words[0] !== 'agent' ? waiting() : content());
const root = document.getElementById('app');
root.replaceChildren();
mount(root, () =>
  agent.link() === 'login'
    ? [h(header), h(login), h(messages), h(dialogs)]
    : [h('a', {
      class: 'skip', href: '#main', onclick: (e) => { e.preventDefault(); document.getElementById('main').focus(); },
    }, 'To the content'),
      h(header), h(main), h(messages), h(dialogs)]);

agent.follow();
