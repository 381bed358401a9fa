// Written from docs/formats/versioned.md alone. It shares no code with what it checks, and must not begin to.
export { readCommit, readSession, type Bucket, type ReadSession } from './read-session.ts'
