/** Parses the output of `git status` and `git diff --numstat`. */

const STATUS_BY_LETTER = { M: 'modified', T: 'typechange', A: 'added', D: 'deleted', R: 'renamed', C: 'copied', U: 'conflicted' };

/**
 * Parses `git status --porcelain=v2 --branch -z`.
 * @param {string} text NUL-separated records
 * @param {string} [prefix] the directory's path inside the repository, with a trailing slash. The returned paths do not have this prefix
 * @returns {{branch: string | null, oid: string | null, detached: boolean, upstream?: string, ahead?: number,
 *   behind?: number, files: {path: string, status: string, index: string, worktree: string, oldPath?: string, repository?: true}[]}}
 *   `index` and `worktree` are git's letters, `.` for unchanged
 */
export function parseStatus(text, prefix = '') {
  const result = { branch: null, oid: null, detached: false, files: [] };
  const withoutPrefix = (name) => (name.startsWith(prefix) ? name.slice(prefix.length) : name);
  const records = text.split('\0');
  for (let i = 0; i < records.length; i += 1) {
    const record = records[i];
    const kind = record[0];
    if (kind === '#') {
      parseHeader(result, record);
    } else if (kind === '1') {
      result.files.push({ ...parseStatusLetters(record), path: withoutPrefix(textAfterFields(record, 8)) });
    } else if (kind === '2') {
      i += 1;
      const oldPath = withoutPrefix(records[i] ?? '');
      result.files.push({ ...parseStatusLetters(record), path: withoutPrefix(textAfterFields(record, 9)), oldPath });
    } else if (kind === 'u') {
      const { index, worktree } = parseStatusLetters(record);
      result.files.push({ status: 'conflicted', index, worktree, path: withoutPrefix(textAfterFields(record, 10)) });
    } else if (kind === '?') {
      const name = withoutPrefix(record.slice(2));
      // Because git lists each untracked file, a folder in the list is a repository.
      const repository = name.endsWith('/') ? { repository: true } : {};
      result.files.push({ status: 'untracked', index: '?', worktree: '?', path: name, ...repository });
    }
  }
  result.files = result.files.map(({ path: name, status, ...others }) => ({ path: name, status, ...others }));
  return result;
}

function parseHeader(result, record) {
  const [, name, ...words] = record.split(' ');
  const value = words.join(' ');
  if (name === 'branch.oid') result.oid = value === '(initial)' ? null : value;
  if (name === 'branch.head') {
    result.detached = value === '(detached)';
    result.branch = result.detached ? null : value;
  }
  if (name === 'branch.upstream') result.upstream = value;
  if (name === 'branch.ab') {
    result.ahead = Number(words[0].slice(1));
    result.behind = Number(words[1].slice(1));
  }
}

/** Returns the status of a record. A rename, copy, addition or deletion in the index takes precedence over an edit in the worktree. */
function parseStatusLetters(record) {
  const index = record[2];
  const worktree = record[3];
  const letter = 'RCAD'.includes(index) && worktree !== 'D' ? index : worktree === '.' ? index : worktree;
  return { status: STATUS_BY_LETTER[letter] ?? 'modified', index, worktree };
}

/** Returns the text after the first `count` space-separated fields: a path, which may contain spaces. */
function textAfterFields(record, count) {
  let at = 0;
  for (let i = 0; i < count; i += 1) at = record.indexOf(' ', at) + 1;
  return record.slice(at);
}

/**
 * Parses `git diff --numstat -z`. A file with a conflict has two records, of which the last has the counts.
 * @param {string} text
 * @returns {{path: string, added: number, removed: number, binary?: true, oldPath?: string}[]}
 */
export function parseNumstat(text) {
  const files = new Map();
  const records = text.split('\0');
  for (let i = 0; i < records.length; i += 1) {
    const match = /^(\d+|-)\t(\d+|-)\t(.*)$/s.exec(records[i]);
    if (!match) continue;
    const binary = match[1] === '-';
    const file = { path: match[3], added: binary ? 0 : Number(match[1]), removed: binary ? 0 : Number(match[2]) };
    if (binary) file.binary = true;
    if (file.path === '') {
      // A rename: the next two records are its old and new names.
      file.path = records[i + 2] ?? '';
      file.oldPath = records[i + 1] ?? '';
      i += 2;
    }
    files.set(file.path, file);
  }
  return [...files.values()];
}
