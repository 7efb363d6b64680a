/** Suggests the name of a git worktree, which is also the name of its branch. */

const MAX_WORDS = 5;
const MAX_LENGTH = 40;

/** Returns a short name from the words of a task, such as `fix-login-page`. Returns `task` for a text without Latin letters or digits. */
export function suggestWorktreeName(task: string, usedNames: ReadonlySet<string> = new Set()): string {
  const words = task
    .normalize('NFKD')
    .replace(/\p{M}|['’]/gu, '')
    .toLowerCase()
    .match(/[a-z0-9]+/g);
  let name = words?.[0]?.slice(0, MAX_LENGTH) ?? 'task';
  for (const word of words?.slice(1, MAX_WORDS) ?? []) {
    if (name.length + 1 + word.length > MAX_LENGTH) break;
    name += `-${word}`;
  }
  let unused = name;
  for (let count = 2; usedNames.has(unused); count += 1) unused = `${name}-${count}`;
  return unused;
}
