// Tests of the signals and the renderer, run in a browser. Results are left in window.results.

import { signal, computed, effect, h, mount, memo } from '/ui/ui.js';

const results = [];
const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));

async function test(name, body) {
  const root = document.createElement('div');
  document.body.append(root);
  try { await body(root); results.push({ name, error: '' }); } catch (e) { results.push({ name, error: String(e.stack || e) }); }
  root.remove();
}

function equal(got, want) {
  if (JSON.stringify(got) !== JSON.stringify(want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`);
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
  mount(root, () => h('input', on() ? { class: 'a', 'aria-label': 'x', disabled: true, value: 'v' } : { class: 'b', value: 'w' }));
  const el = root.firstChild;
  equal([el.className, el.getAttribute('aria-label'), el.disabled, el.value], ['a', 'x', true, 'v']);
  on.set(false);
  await frame();
  equal([root.firstChild === el, el.className, el.getAttribute('aria-label'), el.disabled, el.value], [true, 'b', null, false, 'w']);
});

await test('children with keys keep their elements, in any order', async (root) => {
  const list = signal(['a', 'b', 'c', 'd']);
  mount(root, () => h('ul', null, list().map((k) => h('li', { key: k }, k))));
  const before = Object.fromEntries([...root.querySelectorAll('li')].map((e) => [e.textContent, e]));
  for (const order of [['d', 'c', 'b', 'a'], ['b', 'x', 'd'], [], ['a'], ['c', 'a', 'b'], ['a', 'b', 'c', 'd', 'e', 'f']]) {
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

await test('what is the same is not compared', async (root) => {
  const n = signal(0);
  let made = 0;
  mount(root, () => h('div', null, n(), memo('row', ['same'], () => { made++; return h('p', null, 'row'); })));
  n.set(1);
  await frame();
  equal([made, root.textContent], [1, '1row']);
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

window.results = results;
