// Reading a session's journal, and going back in it.
export {
  JournalReader,
  listArchives,
  type JournalArchive,
  type JournalDamage,
  type JournalEnvelope,
} from '@nexus/journal'
export { restoreSession, rewindSession, type RewindSessionOptions } from './session/rewind-session.ts'
