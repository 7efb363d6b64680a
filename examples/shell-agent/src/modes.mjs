/** Permission and model modes: which are valid for an agent kind, and what each means for a shell. */

/** Modes valid per agent kind (PROTOCOL.md, "Basics"). A kind that is not listed knows `default` only. */
const VALID = {
  alpha: ['default', 'acceptEdits', 'bypassPermissions', 'plan'],
  beta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  delta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  epsilon: ['default', 'yolo'],
  gamma: ['default', 'plan', 'ask', 'yolo'],
};

const MODELS = ['default', 'model_fast', 'model_strong'];

export function isValidMode(flavor, mode) {
  return (Object.hasOwn(VALID, flavor) ? VALID[flavor] : ['default']).includes(mode);
}

/** Only alpha has model modes. */
export function isValidModel(flavor, model) {
  return flavor === 'alpha' && MODELS.includes(model);
}

/** The mode of this agent kind that approves everything, or null when it has none. */
export function freeMode(flavor) {
  return ['bypassPermissions', 'yolo'].find((mode) => isValidMode(flavor, mode)) ?? null;
}

/**
 * What a mode means for a command. A shell command may change files as well as anything else, so `acceptEdits` asks and
 * `read-only` never runs one.
 * @param {string} mode
 * @param {string} command
 * @param {boolean} isPlain whether the shell is as it was at its start: what an earlier command has set may make anything
 *   of a harmless word
 * @returns {'run' | 'ask' | 'never'}
 */
export function verdict(mode, command, isPlain) {
  switch (mode) {
    case 'bypassPermissions':
    case 'yolo':
      return 'run';
    case 'plan':
    case 'read-only':
      return 'never';
    case 'safe-yolo':
      return isPlain && isHarmless(command) ? 'run' : 'ask';
    default:
      return 'ask';
  }
}

const READERS = new Set(['ls', 'pwd', 'cat', 'head', 'tail', 'wc', 'whoami', 'echo']);

/** True for a plain call of a well-known reading program on paths below the directory; nothing a shell would interpret. */
export function isHarmless(command) {
  if (!/^[A-Za-z0-9 _./:,@+=-]+$/.test(command)) return false;
  const words = command.trim().split(/ +/);
  if (words.some((word) => word.startsWith('/') || word.split('/').includes('..') || word.includes('='))) return false;
  return READERS.has(words[0]) || (words[0] === 'git' && words[1] === 'status' && words.length === 2);
}
