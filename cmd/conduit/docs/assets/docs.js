// The box that searches the documentation.
const box = document.getElementById('search'), found = document.getElementById('found'),
  article = document.querySelector('article');
const title = document.createElement('h1'), list = document.createElement('ul');
title.textContent = 'Found';
found.append(title, list);

function show() {
  const query = box.value.trim();
  found.hidden = query === '';
  article.hidden = query !== '';
  list.replaceChildren();
  if (!query) return;
  const hits = findPages(window.conduitPages, query);
  for (const hit of hits.slice(0, 30)) {
    const { page, section, name } = hit;
    const item = document.createElement('li'), link = document.createElement('a'), text = document.createElement('div');
    link.href = linkOf(hit);
    link.textContent = [page.title, section.title, name].filter(Boolean).join(' › ');
    link.addEventListener('click', () => { box.value = ''; show(); }); // it may lead to a place on this page
    text.className = 'quiet';
    text.textContent = excerpt(section.text, name || query);
    item.append(link, text);
    list.append(item);
  }
  if (!hits.length) list.append(Object.assign(document.createElement('li'), { textContent: 'Nothing was found.' }));
}

box.addEventListener('input', show);
