/** The permission and model modes that the hub knows for each flavor, the kind of agent in a session's metadata. */

/** The permission modes by flavor (PROTOCOL.md "Agents and permission modes"). All other flavors have only `default`. */
const MODES = {
  alpha: ['default', 'acceptEdits', 'bypassPermissions', 'plan'],
  beta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  delta: ['default', 'read-only', 'safe-yolo', 'yolo'],
  epsilon: ['default', 'yolo'],
  gamma: ['default', 'plan', 'ask', 'yolo'],
};

/** Model modes, which only the flavor `alpha` has. */
const MODELS = ['default', 'model_fast', 'model_strong'];

/** Whether the hub knows a permission mode for a flavor. Modes in the session's metadata are valid, too, and not known here. */
export function isValidMode(flavor, mode) {
  return (Object.hasOwn(MODES, flavor) ? MODES[flavor] : ['default']).includes(mode);
}

/** Whether the hub knows a model for a flavor. Models in the session's metadata are valid, too, and not known here. */
export function isValidModel(flavor, model) {
  return flavor === 'alpha' && MODELS.includes(model);
}

/** Modes in which an agent does some things without asking the user. */
const LENIENT_MODES = ['acceptEdits', 'safe-yolo', 'bypassPermissions', 'yolo'];

/** Whether an agent in a mode asks the user before it acts. */
export const isAskingMode = (mode) => !LENIENT_MODES.includes(mode);

/** Returns the flavor's mode that approves everything; null if the flavor has no such mode. */
export function autoApproveMode(flavor) {
  return ['bypassPermissions', 'yolo'].find((mode) => isValidMode(flavor, mode)) ?? null;
}

/**
 * Checks settings against the modes of a flavor.
 * @param {string} flavor
 * @param {{permissionMode?: string, modelMode?: string}} changes
 * @returns {{permissionMode?: string, modelMode?: string}} the settings to apply
 * @throws {Error} when the flavor has no such mode
 */
export function configureByFlavor(flavor, { permissionMode, modelMode }) {
  const refuse = (mode) => {
    throw new Error(`An agent of kind ${flavor} has no ${mode}.`);
  };
  if (permissionMode !== undefined && !isValidMode(flavor, permissionMode)) refuse(`permission mode ${permissionMode}`);
  if (modelMode !== undefined && !isValidModel(flavor, modelMode)) refuse(`model mode ${modelMode}`);
  return {
    ...(permissionMode === undefined ? {} : { permissionMode }),
    ...(modelMode === undefined ? {} : { modelMode }),
  };
}

/**
 * Returns the settings of a session at its start. Options of the command line take precedence over the settings stored at the hub.
 * @param {{flavor: string, autoApprove?: boolean, model?: string}} options
 * @param {{permissionMode?: string, modelMode?: string}} session the hub's session
 * @returns {Omit<import('./session.mjs').Settings, 'mode'>}
 */
export function settingsByFlavor({ flavor, autoApprove, model }, session) {
  const stored = isValidMode(flavor, session.permissionMode) ? session.permissionMode : 'default';
  return {
    permissionMode: autoApprove ? (autoApproveMode(flavor) ?? stored) : stored,
    modelMode: [model, session.modelMode].find((candidate) => isValidModel(flavor, candidate)),
    // `--auto-approve` also works for a flavor that has no such mode.
    autoApprove: Boolean(autoApprove) && autoApproveMode(flavor) === null,
  };
}
