/** Runs the callbacks of settled promises. */
export const flushPromises = () => new Promise<void>((resolve) => setImmediate(resolve));
