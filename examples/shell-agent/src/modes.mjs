/** Permission and model modes: which are valid for an agent kind, and what a permission mode means for a command. */

/** Valid modes per agent kind (PROTOCOL.md, "Basics"). Other kinds have only `default`. */
const VALID = {
  alpha: ['default', 'acceptEdits', 'bypassPermissions', 'plan'],
  beta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  delta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  epsilon: ['default', 'yolo'],
  gamma: ['default', 'plan', 'ask', 'yolo'],
};

/** Model modes, which only the kind `alpha` has. */
const MODELS = ['default', 'model_fast', 'model_strong'];

export function isValidMode(flavor, mode) {
  return (Object.hasOwn(VALID, flavor) ? VALID[flavor] : ['default']).includes(mode);
}

export function isValidModel(flavor, model) {
  return flavor === 'alpha' && MODELS.includes(model);
}

/** The mode of an agent kind that approves everything, or null when it has none. */
export function autoApproveMode(flavor) {
  return ['bypassPermissions', 'yolo'].find((mode) => isValidMode(flavor, mode)) ?? null;
}

/**
 * Decides whether a command runs. A shell command can change more than files, so `acceptEdits` asks and `read-only` runs
 * none.
 * @param {string} mode
 * @param {string} command
 * @param {boolean} isUnmodified whether the shell is as at its start. In a modified one, `ls` may be another program.
 * @returns {'run' | 'ask' | 'never'}
 */
export function decideByMode(mode, command, isUnmodified) {
  switch (mode) {
    case 'bypassPermissions':
    case 'yolo':
      return 'run';
    case 'plan':
    case 'read-only':
      return 'never';
    case 'safe-yolo':
      return isUnmodified && isReadOnly(command) ? 'run' : 'ask';
    default:
      return 'ask';
  }
}

const READERS = new Set(['ls', 'pwd', 'cat', 'head', 'tail', 'wc', 'whoami', 'echo']);

/** True for one call of a known reading program on relative paths, without characters that a shell interprets. */
export function isReadOnly(command) {
  if (!/^[A-Za-z0-9 _./:,@+=-]+$/.test(command)) return false;
  const words = command.trim().split(/ +/);
  if (words.some((word) => word.startsWith('/') || word.split('/').includes('..') || word.includes('='))) return false;
  return READERS.has(words[0]) || (words[0] === 'git' && words[1] === 'status' && words.length === 2);
}
