// What runs a session: loaded by the first boot, with the bindings of SQLite and zstd, so that importing the engine is cheap.
export { bootSession } from './lifecycle/boot/boot.ts'
export { refirePartialTurn } from './lifecycle/boot/partial-turn.ts'
export { startRetention } from './lifecycle/retention.ts'
export { abandonSession, detachSession, shutdownSession } from './lifecycle/shutdown.ts'
