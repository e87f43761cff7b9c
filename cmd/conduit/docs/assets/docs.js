// The search of the documentation: pages whose words begin with all that was typed, those with a
// match in their title or headings first.
const box = document.getElementById('search'), found = document.getElementById('found'), article = document.querySelector('article');
const title = document.createElement('h1'), list = document.createElement('ul');
title.textContent = 'Found';
found.append(title, list);

function score(page, words) {
  let sum = 0;
  for (const word of words) {
    const at = (text) => (' ' + text.toLowerCase()).search(new RegExp('[^a-z0-9]' + word.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')));
    if (at(page.Title) >= 0) sum += 10;
    else if ((page.Headings || []).some((h) => at(h) >= 0)) sum += 5;
    else if (at(page.Text) >= 0) sum += 1;
    else return 0;
  }
  return sum;
}

function excerpt(page, word) {
  const at = Math.max(0, page.Text.toLowerCase().indexOf(word) - 60);
  return (at ? '…' : '') + page.Text.slice(at, at + 180) + '…';
}

function search() {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  article.hidden = words.length > 0;
  list.replaceChildren();
  if (!words.length) return;
  const hits = window.conduitPages.map((page) => ({ page, points: score(page, words) })).filter((hit) => hit.points).sort((a, b) => b.points - a.points);
  for (const { page } of hits.slice(0, 30)) {
    const item = document.createElement('li'), link = document.createElement('a'), text = document.createElement('div');
    link.href = page.Name + '.html';
    link.textContent = page.Title;
    text.className = 'quiet';
    text.textContent = excerpt(page, words[0]);
    item.append(link, text);
    list.append(item);
  }
  if (!hits.length) list.append(Object.assign(document.createElement('li'), { textContent: 'Nothing was found.' }));
}

box.addEventListener('input', search);
