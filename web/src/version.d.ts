/** The version of this build. Vite inserts it. */
declare const CONSOLE_VERSION: string;
