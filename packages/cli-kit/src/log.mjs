/** The log on standard error, because other programs read ids from standard output. Its times are local, with the offset from UTC. */

/**
 * @param {{verbose?: boolean, write?: (line: string) => void}} [options]
 * @returns {{info: (text: string) => void, warn: (text: string) => void, debug: (text: string) => void}}
 */
export function makeLog({ verbose = false, write = (line) => process.stderr.write(line) } = {}) {
  const line = (text) => write(`${new Date().toTimeString().replace(/ GMT(...)(..).*/, '$1:$2')} ${text}\n`);
  return {
    info: line,
    warn: (text) => line(`warning: ${text}`),
    debug: verbose ? line : () => {},
  };
}
