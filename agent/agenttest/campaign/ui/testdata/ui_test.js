// Tests of the signals and the renderer, run in a browser. Results are left in window.results.

import { signal, computed, effect, h, mount } from '/ui/ui.js';
import { clock } from '/ui/format.js';
import { long, when } from '/ui/parts.js';

const results = [];
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 5)));

async function test(name, body) {
  const root = document.createElement('div');
  document.body.append(root);
  try {
    await body(root);
    results.push({ name, error: '' });
  } catch (e) {
    results.push({ name, error: String(e.stack || e) });
  }
  root.remove();
}

function equal(got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want))
    throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
}

const texts = (root, selector) => [...root.querySelectorAll(selector)].map((e) => e.textContent);

await test('an effect runs again after what it read has changed, once for several changes', async () => {
  const a = signal(1), b = signal(2), unread = signal(0);
  let runs = 0, sum = 0;
  effect(() => { runs++; sum = a() + b(); });
  a.set(10); b.set(20); unread.set(5);
  equal([runs, sum], [1, 3]);
  await Promise.resolve();
  equal([runs, sum], [2, 30]);
  a.set(10);
  await Promise.resolve();
  equal(runs, 2);
});

await test('an effect depends only on what it read the last time', async () => {
  const which = signal(true), a = signal('a'), b = signal('b');
  const seen = [];
  effect(() => seen.push(which() ? a() : b()));
  which.set(false);
  await Promise.resolve();
  a.set('a2');
  await Promise.resolve();
  b.set('b2');
  await Promise.resolve();
  equal(seen, ['a', 'b', 'b2']);
});

await test('an effect that was ended runs no more, also when it is due', async () => {
  const a = signal(1);
  let runs = 0;
  const end = effect(() => { a(); runs++; });
  a.set(2);
  end();
  await Promise.resolve();
  equal(runs, 1);
});

await test('a computed signal follows', async () => {
  const a = signal(2), double = computed(() => a() * 2);
  equal(double(), 4);
  a.set(5);
  await Promise.resolve();
  equal(double(), 10);
});

await test('text is text, never markup', async (root) => {
  mount(root, () => h('p', { title: '"><b>' }, '<img src=x onerror=alert(1)>', 0, null, false, undefined));
  equal(root.textContent, '<img src=x onerror=alert(1)>0');
  equal(root.querySelectorAll('img, b').length, 0);
});

await test('attributes come, change and go', async (root) => {
  const on = signal(true);
  mount(root, () =>
    h('input', on() ? { class: 'a', 'aria-label': 'x', disabled: true, value: 'v' } : { class: 'b', value: 'w' }));
  const el = root.firstChild;
  equal([el.className, el.getAttribute('aria-label'), el.disabled, el.value], ['a', 'x', true, 'v']);
  on.set(false);
  await frame();
  equal([root.firstChild === el, el.className, el.getAttribute('aria-label'), el.disabled, el.value],
    [true, 'b', null, false, 'w']);
});

await test('children with keys keep their elements, in any order', async (root) => {
  const list = signal(['a', 'b', 'c', 'd']);
  mount(root, () => h('ul', null, list().map((k) => h('li', { key: k }, k))));
  const before = Object.fromEntries([...root.querySelectorAll('li')].map((e) => [e.textContent, e]));
  for (const order of [
    ['d', 'c', 'b', 'a'], ['b', 'x', 'd'], [], ['a'], ['c', 'a', 'b'], ['a', 'b', 'c', 'd', 'e', 'f'],
  ]) {
    list.set(order);
    await frame();
    equal(texts(root, 'li'), order);
  }
  list.set(['b', 'a']);
  await frame();
  const a = root.querySelectorAll('li')[1];
  list.set(['a', 'b']);
  await frame();
  equal(root.querySelector('li') === a, true);
  equal(before.a === a, false); // it went in between
});

await test('random lists end up in order, and elements are not made in vain', async (root) => {
  const list = signal([]);
  let made = 0;
  mount(root, () => h('ul', null, list().map((k) => h('li', { key: k, ref: (el) => { if (el) made++; } }, k))));
  let seed = 7, last = [];
  const random = (n) => (seed = (seed * 16807) % 2147483647) % n;
  for (let round = 0; round < 60; round++) {
    const next = [...new Set(Array.from({ length: random(30) }, () => random(40)))];
    const added = next.filter((k) => !last.includes(k)).length;
    made = 0;
    list.set(next);
    await frame();
    equal(texts(root, 'li'), next.map(String));
    equal(made, added);
    last = next;
  }
});

await test('ref gets null when its element goes', async (root) => {
  const on = signal(true), calls = [];
  mount(root, () => (on() ? h('div', null, h('p', { ref: (el) => calls.push(el ? 'came' : 'went') })) : h('span')));
  on.set(false);
  await frame();
  equal(calls, ['came', 'went']);
});

await test('ref gets its element once it is in the page', async (root) => {
  let inPage;
  mount(root, () => h('div', null, h('p', { ref: (el) => { if (el) inPage = el.isConnected; } })));
  equal(inPage, true);
});

await test('a select shows the option that is chosen', async (root) => {
  const value = signal('b');
  mount(root, () => h('select', { value: value() }, ['a', 'b', 'c'].map((v) => h('option', { value: v, key: v }, v))));
  equal(root.firstChild.value, 'b');
  value.set('c');
  await frame();
  equal(root.firstChild.value, 'c');
});

await test('drawings are drawings', async (root) => {
  mount(root, () => h('svg', { viewBox: '0 0 1 1' }, h('g', null, h('path', { d: 'M0 0' }))));
  equal(root.querySelector('path').namespaceURI, 'http://www.w3.org/2000/svg');
});

await test('a part renders when a signal that it read changes, and nothing else does', async (root) => {
  const outer = signal(1), inner = signal('a'), same = { n: 1 }, runs = { outer: 0, part: 0, other: 0 };
  const part = ({ s }) => { runs.part++; return h('p', null, inner(), s.n); };
  const other = () => { runs.other++; return h('i', null, 'x'); };
  mount(root, () => { runs.outer++; return h('div', null, outer(), h(part, { s: same }), h(other)); });
  equal([root.textContent, runs], ['1a1x', { outer: 1, part: 1, other: 1 }]);
  const el = root.querySelector('p');
  inner.set('b');
  await frame();
  equal([root.textContent, runs, root.querySelector('p') === el], ['1b1x', { outer: 1, part: 2, other: 1 }, true]);
  outer.set(2);
  await frame();
  equal([root.textContent, runs], ['2b1x', { outer: 2, part: 2, other: 1 }]);
});

await test('a part renders with other props, and becomes another element, or none, in its place', async (root) => {
  const n = signal(1), kind = signal('p'), told = [];
  const part = ({ n }) => (kind() ? h(kind(), { ref: (el) => told.push(el ? 'came' : 'went') }, n) : null);
  mount(root, () => [h('b', null, 'before'), h(part, { n: n() }), h('b', null, 'after')]);
  n.set(2);
  await frame();
  equal(root.innerHTML, '<b>before</b><p>2</p><b>after</b>');
  kind.set('i');
  await frame();
  equal(root.innerHTML, '<b>before</b><i>2</i><b>after</b>');
  kind.set('');
  await frame();
  equal([root.innerHTML, told], ['<b>before</b><b>after</b>', ['came', 'went', 'came', 'went']]);
  kind.set('p');
  await frame();
  equal(root.innerHTML, '<b>before</b><p>2</p><b>after</b>');
});

await test('parts within parts move with their keys, and render no more once they are gone', async (root) => {
  const list = signal(['a', 'b', 'c']), mark = signal(''), runs = [];
  const cell = ({ k }) => { runs.push(k); return h('i', null, k + mark()); };
  const line = ({ k }) => h(cell, { k });
  mount(root, () => h('div', null, list().map((k) => h(line, { key: k, k }))));
  const a = root.querySelector('i');
  list.set(['c', 'a']);
  await frame();
  equal([texts(root, 'i'), root.querySelectorAll('i')[1] === a, runs.splice(0)], [['c', 'a'], true, ['a', 'b', 'c']]);
  mark.set('!');
  await frame();
  equal([texts(root, 'i'), runs.sort()], [['c!', 'a!'], ['a', 'c']]);
});

await test('rendering leaves the browser time', async (root) => {
  const n = signal(0), between = new Set();
  let rendered = 0;
  const busy = ({ k }) => {
    n();
    const end = performance.now() + 4;
    while (performance.now() < end);
    rendered++;
    return h('i', null, k);
  };
  mount(root, () => h('div', null, Array.from({ length: 10 }, (_, k) => h(busy, { key: k, k }))));
  rendered = 0;
  const other = new MessageChannel();
  const all = new Promise((done) => {
    other.port1.onmessage = () => { between.add(rendered); rendered < 10 ? other.port2.postMessage(0) : done(); };
  });
  n.set(1);
  other.port2.postMessage(0);
  await all;
  equal(between.size >= 4, true); // with all parts at once it were 0 and 10 at most
});

await test('what a rendering sets renders next', async (root) => {
  const a = signal(0), b = signal(0), errors = [];
  const note = (e) => errors.push(e.message);
  addEventListener('error', note);
  mount(root, () =>
    [h(() => { if (a() && !b.peek()) b.set(1); return h('i', null, a()); }), h(() => h('b', null, b()))]);
  a.set(1);
  await frame();
  a.set(2);
  await frame();
  removeEventListener('error', note);
  equal([root.textContent, errors], ['21', []]);
});

await test('a part that fails does not keep the others from rendering', async (root) => {
  const n = signal(0);
  const bad = () => { if (n()) throw new Error('expected'); return h('i'); };
  const good = () => h('b', null, n());
  mount(root, () => h('div', null, h(bad), h(good)));
  const quiet = (e) => e.preventDefault();
  addEventListener('error', quiet);
  n.set(1);
  await frame();
  removeEventListener('error', quiet);
  equal(root.querySelector('b').textContent, '1');
});

await test('a handler is replaced, and what is mounted can be taken away', async (root) => {
  const n = signal(1), got = [];
  const end = mount(root, () => { const v = n(); return h('button', { onclick: () => got.push(v) }, v); });
  root.firstChild.click();
  n.set(2);
  await frame();
  root.firstChild.click();
  equal(got, [1, 2]);
  end();
  equal(root.childNodes.length, 0);
});

await test('a time of another day has its date, and every time is there in full', async (root) => {
  const now = new Date(), earlier = '2026-03-01T10:00:00Z';
  if (!/^\d\d:\d\d:\d\d$/.test(clock(now))) throw new Error(clock(now));
  if (!/^2026-0[23]-\d\d \d\d:\d\d:\d\d$/.test(clock(earlier))) throw new Error(clock(earlier));
  mount(root, () => when(earlier));
  equal([root.firstChild.title, root.firstChild.dateTime], [earlier, earlier]);
});

await test('a long text is cut, and shown in full when it is opened', async (root) => {
  const text = 'word '.repeat(400);
  mount(root, () =>
    h('div', { style: { width: '300px' } }, h('link', { rel: 'stylesheet', href: '/ui/style.css' }), long(text)));
  const summary = root.querySelector('summary');
  for (let i = 0; i < 100 && summary.clientHeight > 60; i++) await frame();
  if (summary.clientHeight > 60) throw new Error(`it is ${summary.clientHeight} pixels high`);
  summary.click();
  await frame();
  if (summary.clientHeight < 400 || summary.scrollHeight > summary.clientHeight + 1)
    throw new Error(`opened, it is ${summary.clientHeight} of ${summary.scrollHeight} pixels high`);
  equal(summary.textContent, text);
});

window.results = results;
