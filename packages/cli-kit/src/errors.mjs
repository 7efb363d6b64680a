/** Errors that the user can fix. */

/** An error that is printed without a stack trace. */
export class UserError extends Error {
  /**
   * @param {string} message what is wrong
   * @param {string} [hint] what the user can do
   */
  constructor(message, hint) {
    super(message);
    this.hint = hint;
  }
}

/** Invalid arguments. */
export class UsageError extends UserError {}

/** The exit code after a `UsageError`. A service manager must not start the program again. */
export const USAGE_EXIT_CODE = 2;

/** The hub, or a person at the console, has refused the access of this program. A further start is refused, too. */
export class AccessRefusedError extends UserError {}

/** The exit code after an access was refused: EX_NOPERM of sysexits(3). A service manager must not start the program again. */
export const REFUSED_EXIT_CODE = 77;

/**
 * The environment variable with another exit code for a refused access and for invalid arguments: launchd starts a program again unless
 * the exit code is 0.
 */
export const REFUSED_EXIT_CODE_VARIABLE = 'SESSION_GATEWAY_REFUSED_EXIT_CODE';
