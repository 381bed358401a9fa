export { type LoopbackServer, type LoopbackServerOptions, openLoopbackServer } from './loopback-server.ts'
export {
  ConnectionLost,
  delayOf,
  isLostAnswer,
  isSilent,
  loseConnection,
  sendBody,
  statusOf,
  stayInSilence,
  uploadBody,
} from './faulty-exchange.ts'
