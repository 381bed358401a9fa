export { JournalReader, type JournalDamage, type JournalEnvelope } from '@nexus/journal'
